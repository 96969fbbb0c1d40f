"""Commands sign people in to the local cloud by themselves, and keep what they get for it."""

import base64
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cli.failures import CloudError
from cli.local.place import Place
from cli.local.sign_in import Session, SignedIn, address_of
from tests.cli.local.test_console import People


class Pool(People):
    """A user pool that gives tokens for the right password."""

    def __init__(self, seconds: float = 3600) -> None:
        super().__init__(outputs={"UserPoolId": "pool", "UserPoolClientId": "client"})
        self.seconds = seconds
        self.given: list[str] = []

    def admin_initiate_auth(self, *, AuthParameters: dict[str, str], **_rest: Any) -> dict[str, Any]:  # noqa: N803
        email = AuthParameters["USERNAME"]
        assert self.passwords[email] == AuthParameters["PASSWORD"]
        told = {"sub": f"subject of {email}", "exp": time.time() + self.seconds, "number": len(self.given)}
        payload = base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")
        self.given.append(f"head.{payload}.signature")
        return {"AuthenticationResult": {"IdToken": self.given[-1]}}


@pytest.fixture
def pool(tmp_path: Path) -> Any:
    made: Any = Pool()
    made.place = Place(tmp_path)
    made.state = SimpleNamespace(emulator=SimpleNamespace(secret="a secret"))
    return made


def ask(pool: Any, name: str = "kim", refused: tuple[str, ...] = ()) -> list[str]:
    """The tokens that a command sends of which the gateway refuses some."""
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"].removeprefix("Bearer "))
        return httpx.Response(401 if sent[-1] in refused else 200)

    with httpx.Client(auth=SignedIn(pool, name), transport=httpx.MockTransport(answer)) as client:
        client.get("http://api.example/api/admin/dlq")
    return sent


def test_somebody_is_made_an_admin_of_all_tenants_and_signed_in_once(pool: Any) -> None:
    assert ask(pool) == ask(pool) == pool.given
    assert len(pool.given) == 1
    assert pool.groups["admin"] == pool.groups["tenant:*"] == {"kim@cli.counterfoil.example"}


def test_what_is_kept_is_for_its_owner_alone_and_goes_with_the_cloud(pool: Any) -> None:
    ask(pool)
    (kept,) = pool.place.folder.iterdir()
    assert kept == pool.place.sessions
    assert kept.stat().st_mode & 0o777 == 0o600
    pool.place.clear()
    assert not kept.exists()


def test_a_token_that_is_about_to_expire_is_not_used(pool: Any) -> None:
    pool.seconds = 50
    assert ask(pool) + ask(pool) == pool.given
    assert len(pool.given) == 2


def test_who_is_not_known_any_more_signs_in_anew_once(pool: Any) -> None:
    ask(pool)
    before = pool.given[0]
    assert ask(pool, refused=(before,)) == pool.given == [before, pool.given[1]]
    assert ask(pool) == [pool.given[1]]


def test_a_new_token_that_is_refused_is_not_sent_again(pool: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Session, "of", classmethod(lambda cls, _: cls("kim", "new", time.time() + 3600)))
        assert ask(pool, refused=("new",)) == ["new"]


def test_two_people_are_two_and_each_is_called_by_name(pool: Any) -> None:
    ask(pool, "kim")
    ask(pool, "Kim Ö. Example")
    known = SignedIn(pool, "anybody")
    subjects = [f"subject of {email}" for email in pool.passwords]
    assert [known.name_of(subject) for subject in (*subjects, "a program")] == ["kim", "Kim Ö. Example", "a program"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kim": {"token": 1}}', '{"kim": 3}'])
def test_what_cannot_be_read_of_what_was_kept_is_had_anew(pool: Any, text: str) -> None:
    pool.place.sessions.write_text(text)
    assert ask(pool) == pool.given


def test_a_folder_that_cannot_be_written_is_told(pool: Any) -> None:
    pool.place = Place(pool.place.folder / "gone")
    with pytest.raises(CloudError, match="cannot use"):
        ask(pool)


def test_names_have_addresses_of_their_own() -> None:
    names = ["kim", "Kim", "kim ", "Kim Ö.", "..", "--", "x" * 60, "x" * 61]
    addresses = [address_of(name) for name in names]
    assert len(set(addresses)) == len(names)
    assert addresses[0] == "kim@cli.counterfoil.example"
    assert all(address.isascii() and len(address.partition("@")[0]) <= 64 for address in addresses)
