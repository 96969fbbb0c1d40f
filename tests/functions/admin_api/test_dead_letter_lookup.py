"""Lookup by the end of an id, limited to items that the caller may view."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from tests.dead_letters.dead_letter_factory import MakeDeadLetter, dead_letter_factory
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import Ask

VIEWER, PLATFORM_VIEWER = "[viewer tenant:acme]", "[viewer tenant:*]"


def look_up(ask: Ask, kind: str, part: str, groups: str = VIEWER) -> list[dict[str, str]]:
    answer = ask("", method="GET", path="/api/admin/dlq/lookup", query={"kind": kind, "part": part}, groups=groups)
    assert answer.status == 200, answer.text
    items: list[dict[str, str]] = answer.body["found"]
    return items


@pytest.mark.parametrize("characters", [4, 8, 9, 12, 13, 36])
def test_dead_letter_is_found_by_id_suffix(ask: Ask, die: MakeDeadLetter, characters: int) -> None:
    letter, _ = str(die()), die()
    assert look_up(ask, "dead_letter", letter[-characters:]) == [{"id": letter, "tenant": "acme"}]


def test_ambiguous_id_returns_two_matches(ask: Ask, die: MakeDeadLetter, admin: Connection) -> None:
    for _ in range(3):
        die()
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")  # without foreign keys
        admin.execute("UPDATE dead_letter SET job_id = overlay(job_id::text placing 'abcd' from 33)::uuid")
    assert len(look_up(ask, "dead_letter", "abcd")) == 2


def test_items_of_other_tenants_are_not_found(
    ask: Ask, die: MakeDeadLetter, database: Database, make_tenant: Callable[..., UUID], admin: Connection
) -> None:
    ours, theirs = die("Ours is full"), dead_letter_factory(database, make_tenant("zenith"))("Theirs timed out")
    end = str(theirs)[-8:]
    fingerprint = {item["job_id"]: item["fingerprint"] for item in rows(admin, "dead_letter")}[str(theirs)]

    assert look_up(ask, "dead_letter", end) == look_up(ask, "group", fingerprint) == []
    assert look_up(ask, "dead_letter", end, PLATFORM_VIEWER) == [{"id": str(theirs), "tenant": "zenith"}]
    assert look_up(ask, "group", fingerprint[:4], PLATFORM_VIEWER) == [{"id": fingerprint, "tenant": "zenith"}]
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [ours])
    assert look_up(ask, "dead_letter", str(ours)[-8:]) == []


def test_unassigned_dead_letter_requires_all_tenants(ask: Ask, die: MakeDeadLetter, admin: Connection) -> None:
    letter = str(die())
    admin.execute("UPDATE dead_letter SET tenant_id = NULL, work_id = NULL, revision = NULL")
    assert look_up(ask, "dead_letter", letter[-8:]) == []
    assert look_up(ask, "dead_letter", letter[-8:], PLATFORM_VIEWER) == [{"id": letter, "tenant": "-"}]


def test_operation_is_found_by_id_suffix(ask: Ask, acme: UUID) -> None:
    body = {"filter": {"tenant": "acme"}}
    operation = ask(body, path="/api/admin/dlq/bulk-retry").body["operation_id"]
    assert [item["id"] for item in look_up(ask, "operation", operation[-8:])] == [operation]
    assert look_up(ask, "operation", "ffffffff", PLATFORM_VIEWER) == []
    assert look_up(ask, "operation", operation[-8:], "[viewer tenant:zenith]") == []


def test_document_is_found_by_id_suffix(
    ask: Ask, acme: UUID, make_tenant: Callable[..., UUID], make_document: Callable[..., UUID]
) -> None:
    ours, theirs = str(make_document(acme)), str(make_document(make_tenant("zenith")))
    assert look_up(ask, "document", ours[-4:]) == [{"id": ours, "tenant": "acme"}]
    assert look_up(ask, "document", theirs) == []
    assert look_up(ask, "document", theirs[-12:], PLATFORM_VIEWER) == [{"id": theirs, "tenant": "zenith"}]


def test_task_is_found_by_its_user_and_admins(ask: Ask, acme: UUID) -> None:
    body = {"task_type": "echo", "payload": {}}
    task = ask(body, path="/api/tasks", subject="ann").body["job_id"]

    def task_ids(groups: str, subject: str = "ann") -> list[str]:
        query = {"kind": "task", "part": task[-8:]}
        answer = ask("", method="GET", path="/api/admin/dlq/lookup", query=query, groups=groups, subject=subject)
        return [item["id"] for item in answer.body["found"]]

    assert task_ids(VIEWER) == task_ids("[admin tenant:acme]", "ben") == [task]
    assert task_ids(VIEWER, "ben") == task_ids("[admin tenant:zenith]") == []


@pytest.mark.parametrize(
    "query",
    [
        {"kind": "dead_letter"},
        {"kind": "dead_letter", "part": "abc"},
        {"kind": "dead_letter", "part": "%%%%"},
        {"part": "abcd"},
    ],
)
@pytest.mark.usefixtures("acme")
def test_invalid_lookup_is_rejected(ask: Ask, query: dict[str, str]) -> None:
    assert ask("", method="GET", path="/api/admin/dlq/lookup", query=query, groups=PLATFORM_VIEWER).status == 422
