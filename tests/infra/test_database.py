"""Database URLs of the local cloud."""

import pytest


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://127.0.0.1:5432/name", "postgresql://worker@127.0.0.1:5432/name"),
        ("postgresql://postgres@127.0.0.1:5432/name", "postgresql://worker@127.0.0.1:5432/name"),
        (
            "postgresql://postgres:secret@[::1]:5432/name?sslmode=disable",
            "postgresql://worker@[::1]:5432/name?sslmode=disable",
        ),
    ],
)
def test_with_user_replaces_user_and_drops_password(url: str, expected: str):
    from infra.data import with_user

    assert with_user(url, "worker") == expected
