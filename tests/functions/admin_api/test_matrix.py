"""Every route x role x tenant x token: exactly what is allowed is allowed, and nothing tells what others have."""

from datetime import UTC, datetime
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.auth import LEEWAY_SECONDS, Role
from functions.admin_api.handler import document
from tests.functions.admin_api.conftest import CLAIMS, Answer, Ask
from tests.functions.admin_api.rights import RIGHTS, Asked, Right, Tenancy, Things, World, described, parts, surround

ROLES = {
    "nobody": (Role.NONE, ""),
    "editor": (Role.NONE, "edit-payloads"),
    "viewer": (Role.VIEWER, "viewer"),
    "viewer who edits": (Role.VIEWER, "viewer edit-payloads"),
    "operator": (Role.OPERATOR, "operator"),
    "operator who edits": (Role.OPERATOR, "operator edit-payloads"),
    "admin": (Role.ADMIN, "admin"),
}
TENANTS: dict[str, tuple[Tenancy, str]] = {
    "own": ("own", "tenant:acme"),
    "foreign": ("foreign", "tenant:other"),
    "every": ("every", "tenant:*"),
    "none": ("none", ""),
    "one that is called alike": ("foreign", "tenant:acme-2"),
}


@pytest.fixture
def world(ask: Ask, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two tenants, `acme` and `other`, of which the callers here have the first in mind."""
    surround(monkeypatch)
    World(database, admin, "other")
    return World(database, admin, "acme")


def sent(ask: Ask, operation: str, asked: Asked, groups: str, claims: dict[str, Any] | None = None) -> Answer:
    method, _ = parts(operation)
    query, seen = dict(asked.query), {"if-match": f'"{asked.seen}"'}
    return ask(
        asked.body, method=method, path=asked.path, query=query, groups=f"[{groups}]", headers=seen, claims=claims
    )


def test_the_table_has_every_route() -> None:
    assert RIGHTS.keys() == described(document()).keys()


def test_who_may_may_and_nobody_else(ask: Ask, world: World, admin: Connection) -> None:
    wrong: list[tuple[object, ...]] = []
    done: set[str] = set()
    shared = world.things()
    before: object = None  # reread after each request that may change it
    for (operation, right), role, tenant in product(RIGHTS.items(), ROLES, TENANTS):
        (rank, groups), (tenancy, tenant_group) = ROLES[role], TENANTS[tenant]
        is_allowed = right.allows(rank, tenancy, edits="edit-payloads" in groups)
        expected = right.answers if is_allowed else {right.refusal(rank, tenancy)}
        things = world.things() if is_allowed and not operation.startswith("GET ") else shared
        before = None if is_allowed else before or state(admin)
        answer = sent(ask, operation, right.ask(things), f"{groups} {tenant_group}".strip())
        if answer.status < 300:
            done.add(operation)
        if answer.status not in expected:
            wrong.append((operation, role, tenant, answer.status, sorted(expected), answer.body))
        if before is not None and state(admin) != before:
            wrong.append((operation, role, tenant, "something was changed"))

    assert wrong == []
    assert done >= {operation for operation, right in RIGHTS.items() if not {404, 409, 412} & right.answers}


_STATE = """
SELECT (SELECT count(*) FROM audit_entry), (SELECT sum(version) FROM dead_letter), (SELECT count(*) FROM task),
       (SELECT count(*) FROM task WHERE status IS NULL), (SELECT count(*) FROM chat_session),
       (SELECT count(*) FROM match_decision), (SELECT count(*) FROM outbox),
       (SELECT count(*) FROM change_allowance WHERE purpose = 'change'),
       (SELECT sum(tokens) FROM change_allowance WHERE purpose = 'change'),
       (SELECT count(*) FROM operation WHERE action = 'purge' AND restored_at IS NULL),
       (SELECT count(*) FROM tenant WHERE dmarc_policy = 'hold'),
       (SELECT count(*) FROM profile), (SELECT max(changed_at) FROM profile), (SELECT count(*) FROM profile_block)
"""


def state(admin: Connection) -> object:
    """What a change would change."""
    return admin.execute(_STATE).fetchone()


NOW = int(datetime.now(UTC).timestamp())
TOKENS: dict[str, dict[str, Any]] = {
    "expired": {"exp": str(NOW - LEEWAY_SECONDS - 1)},
    "without an end": {"exp": None},
    "not valid yet": {"nbf": str(NOW + 3600)},
    "of the future": {"iat": str(NOW + 3600)},
    "of another issuer": {"iss": CLAIMS["iss"] + "x"},
    "of no issuer": {"iss": None},
    "for somebody else": {"aud": "somebody"},
    "for nobody": {"aud": None},
    "for access": {"token_use": "access", "client_id": CLAIMS["aud"], "aud": None},
    "for access, made out to us": {"token_use": "access"},
    "for renewal": {"token_use": "refresh"},
    "for nothing": {"token_use": None},
    "of no claims": dict.fromkeys([*CLAIMS, "cognito:groups"]),
}


def test_no_other_token_opens_any_route(ask: Ask, world: World, admin: Connection) -> None:
    things = world.things()
    before = state(admin)
    wrong = []
    for (operation, right), token in product(RIGHTS.items(), TOKENS):
        for asked in (right.ask(things), right.ask(Things.gone())):
            answer = sent(ask, operation, asked, "admin tenant:*", TOKENS[token])
            if (answer.status, "WWW-Authenticate" in answer.headers) != (401, True):
                wrong.append((operation, token, answer.status))

    assert wrong == []
    assert state(admin) == before


@pytest.mark.parametrize("groups", [None, "", "[]", "admin", "[admin]", "[tenant:acme]", "[ADMIN tenant:acme]", "{}"])
def test_who_is_in_no_group_that_counts_gets_nothing(groups: str | None, ask: Ask, world: World) -> None:
    things = world.things()
    for operation, right in RIGHTS.items():
        asked = right.ask(things)
        method, _ = parts(operation)
        answer = ask(asked.body, method=method, path=asked.path, query=dict(asked.query), groups=groups)
        expected = right.answers if right.reach == "anybody" else {403, 404}
        assert answer.status in expected, (operation, answer.status)


def told(answer: Answer, asked: Asked, things: Things) -> tuple[object, ...]:
    """What an answer says, but for what was asked."""
    text = answer.text
    for value in (
        things.slug,
        things.task,
        things.session,
        things.letter,
        things.purge,
        things.export,
        things.user,
        things.pool,
        *things.documents,
    ):
        text = text.replace(value, "it")
    headers = {name: value for name, value in answer.headers.items() if name != "ETag"}
    return answer.status, text, headers


@pytest.mark.parametrize("role", ["viewer", "operator edit-payloads", "admin"])
@pytest.mark.parametrize("tenant", ["tenant:other", ""])
def test_what_others_have_is_answered_as_what_is_not_there(role: str, tenant: str, ask: Ask, world: World) -> None:
    there, gone = world.things(), Things.gone()
    differ = []
    for operation, right in RIGHTS.items():
        if right.reach not in {"thing", "tenant"}:
            continue
        answers = [
            told(sent(ask, operation, right.ask(things), f"{role} {tenant}".strip()), right.ask(things), things)
            for things in (there, gone)
        ]
        if answers[0] != answers[1]:
            differ.append((operation, *answers))

    assert differ == []


def test_a_document_of_others_cannot_be_told_from_none_in_a_body_either(
    ask: Ask, world: World, database: Database, admin: Connection
) -> None:
    mine, theirs = world.things(), World(database, admin, "third").things()
    third = mine.documents[2]
    for other in (theirs.documents[0], str(uuid4())):
        for path, body in (
            (f"{third}/confirm", {"document": other}),
            (f"{third}/reject", {"documents": [other]}),
            ("merge", {"documents": [third, other]}),
            ("merge", {"documents": [other, third]}),
        ):
            answer = ask(body, path=f"/api/admin/reviews/{path}", groups="[operator tenant:acme]")
            assert (path, answer.status) == (path, 404)
            assert answer.text.replace(other, "it") == answer.text


def test_an_answer_is_for_who_asked_and_is_no_page(ask: Ask, world: World) -> None:
    things = world.things()
    for operation, right in RIGHTS.items():
        for groups in ("admin tenant:acme", "viewer tenant:other"):
            answer = sent(ask, operation, right.ask(things), groups)
            cached = answer.headers["Cache-Control"]
            assert "no-store" in cached or "private" in cached, operation
            assert "public" not in cached
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_right_is_asked_for_as_the_table_says() -> None:
    editing = Right(Role.OPERATOR, "thing", lambda _: Asked("/"), takes_editor=True)

    assert [editing.allows(role, "own", edits=edits) for role in Role for edits in (False, True)] == [
        *(False, False, False, False, False, True, True, True)
    ]
    assert not editing.allows(Role.ADMIN, "foreign", edits=True)
