"""Commands sign in to the local cloud automatically and store their sessions."""

import base64
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cli.failures import CloudError
from cli.local.paths import CloudPaths
from cli.local.sign_in import LocalSignIn, Session, address_of
from tests.cli.local.test_console import People


class Pool(People):
    """A user pool that issues tokens for the correct password."""

    def __init__(self, seconds: float = 3600) -> None:
        super().__init__(outputs={"UserPoolId": "pool", "UserPoolClientId": "client"})
        self.seconds = seconds
        self.issued: list[str] = []

    def admin_initiate_auth(self, *, AuthParameters: dict[str, str], **_rest: Any) -> dict[str, Any]:  # noqa: N803
        email = AuthParameters["USERNAME"]
        assert self.passwords[email] == AuthParameters["PASSWORD"]
        claims = {"sub": f"subject of {email}", "exp": time.time() + self.seconds, "number": len(self.issued)}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        self.issued.append(f"head.{payload}.signature")
        return {"AuthenticationResult": {"IdToken": self.issued[-1]}}


@pytest.fixture
def user_pool(tmp_path: Path) -> Any:
    made: Any = Pool()
    made.paths = CloudPaths(tmp_path)
    made.state = SimpleNamespace(emulator=SimpleNamespace(secret="a secret"))
    return made


def sent_tokens(user_pool: Any, name: str = "kim", refused: tuple[str, ...] = ()) -> list[str]:
    """Return the tokens that a command sends.

    The gateway rejects the tokens in `refused`.
    """
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"].removeprefix("Bearer "))
        return httpx.Response(401 if sent[-1] in refused else 200)

    with httpx.Client(auth=LocalSignIn(user_pool, name), transport=httpx.MockTransport(answer)) as client:
        client.get("http://api.example/api/admin/dlq")
    return sent


def test_command_signs_in_once_as_admin(user_pool: Any) -> None:
    assert sent_tokens(user_pool) == sent_tokens(user_pool) == user_pool.issued
    assert len(user_pool.issued) == 1
    assert user_pool.groups["admin"] == user_pool.groups["tenant:*"] == {"kim@cli.counterfoil.example"}


def test_sessions_are_private_and_deleted_with_the_cloud(user_pool: Any) -> None:
    sent_tokens(user_pool)
    (kept,) = user_pool.paths.folder.iterdir()
    assert kept == user_pool.paths.sessions
    assert kept.stat().st_mode & 0o777 == 0o600
    user_pool.paths.clear()
    assert not kept.exists()


def test_expiring_token_is_not_used(user_pool: Any) -> None:
    user_pool.seconds = 50
    assert sent_tokens(user_pool) + sent_tokens(user_pool) == user_pool.issued
    assert len(user_pool.issued) == 2


def test_rejected_token_is_renewed_once(user_pool: Any) -> None:
    sent_tokens(user_pool)
    before = user_pool.issued[0]
    assert sent_tokens(user_pool, refused=(before,)) == user_pool.issued == [before, user_pool.issued[1]]
    assert sent_tokens(user_pool) == [user_pool.issued[1]]


def test_rejected_new_token_is_not_sent_again(user_pool: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Session, "of", classmethod(lambda cls, _: cls("kim", "new", time.time() + 3600)))
        assert sent_tokens(user_pool, refused=("new",)) == ["new"]


def test_each_name_is_a_separate_user(user_pool: Any) -> None:
    sent_tokens(user_pool, "kim")
    sent_tokens(user_pool, "Kim Ö. Example")
    known = LocalSignIn(user_pool, "anybody")
    subjects = [f"subject of {email}" for email in user_pool.passwords]
    assert [known.name_of(subject) for subject in (*subjects, "a program")] == ["kim", "Kim Ö. Example", None]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kim": {"token": 1}}', '{"kim": 3}'])
def test_invalid_session_file_is_replaced(user_pool: Any, text: str) -> None:
    user_pool.paths.sessions.write_text(text)
    assert sent_tokens(user_pool) == user_pool.issued


def test_unwritable_folder_is_reported(user_pool: Any) -> None:
    user_pool.paths = CloudPaths(user_pool.paths.folder / "gone")
    with pytest.raises(CloudError, match="cannot use"):
        sent_tokens(user_pool)


def test_names_have_distinct_addresses() -> None:
    names = ["kim", "Kim", "kim ", "Kim Ö.", "..", "--", "x" * 60, "x" * 61]
    addresses = [address_of(name) for name in names]
    assert len(set(addresses)) == len(names)
    assert addresses[0] == "kim@cli.counterfoil.example"
    assert all(address.isascii() and len(address.partition("@")[0]) <= 64 for address in addresses)
