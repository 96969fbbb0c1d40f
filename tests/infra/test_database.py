"""Signing in to the embedded server."""

import pytest


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://127.0.0.1:5432/name", "postgresql://worker@127.0.0.1:5432/name"),
        ("postgresql://postgres@127.0.0.1:5432/name", "postgresql://worker@127.0.0.1:5432/name"),
        (
            "postgresql://postgres:secret@[::1]:5432/name?sslmode=disable",
            "postgresql://worker@[::1]:5432/name?sslmode=disable",
        ),
    ],
)
def test_a_url_is_rewritten_for_another_user_without_the_first_ones_password(url: str, wanted: str):
    from infra.data import with_user

    assert with_user(url, "worker") == wanted
