"""Items are found by a part of their id, if the caller may view them."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from tests.dead_letters.letters import Die, dying
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import Ask

OF_ACME, OF_ALL = "[viewer tenant:acme]", "[viewer tenant:*]"


def named(ask: Ask, kind: str, part: str, groups: str = OF_ACME) -> list[dict[str, str]]:
    answer = ask("", method="GET", path="/api/admin/dlq/named", query={"kind": kind, "part": part}, groups=groups)
    assert answer.status == 200, answer.text
    found: list[dict[str, str]] = answer.body["found"]
    return found


@pytest.mark.parametrize("characters", [4, 8, 9, 12, 13, 36])
def test_a_letter_is_found_by_the_end_of_its_id(ask: Ask, die: Die, characters: int) -> None:
    letter, _ = str(die()), die()
    assert named(ask, "letter", letter[-characters:]) == [{"id": letter, "tenant": "acme"}]


def test_two_are_enough_to_tell_that_there_is_more_than_one(ask: Ask, die: Die, admin: Connection) -> None:
    for _ in range(3):
        die()
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")  # without foreign keys
        admin.execute("UPDATE dead_letter SET job_id = overlay(job_id::text placing 'abcd' from 33)::uuid")
    assert len(named(ask, "letter", "abcd")) == 2


def test_what_is_not_the_callers_to_see_is_not_found(
    ask: Ask, die: Die, database: Database, make_tenant: Callable[..., UUID], admin: Connection
) -> None:
    ours, theirs = die("Ours is full"), dying(database, make_tenant("zenith"))("Theirs timed out")
    end = str(theirs)[-8:]
    fingerprint = {one["job_id"]: one["fingerprint"] for one in rows(admin, "dead_letter")}[str(theirs)]

    assert named(ask, "letter", end) == named(ask, "group", fingerprint) == []
    assert named(ask, "letter", end, OF_ALL) == [{"id": str(theirs), "tenant": "zenith"}]
    assert named(ask, "group", fingerprint[:4], OF_ALL) == [{"id": fingerprint, "tenant": "zenith"}]
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [ours])
    assert named(ask, "letter", str(ours)[-8:]) == []


def test_what_is_nobodys_is_found_by_who_is_of_all_tenants(ask: Ask, die: Die, admin: Connection) -> None:
    letter = str(die())
    admin.execute("UPDATE dead_letter SET tenant_id = NULL, work_id = NULL, revision = NULL")
    assert named(ask, "letter", letter[-8:]) == []
    assert named(ask, "letter", letter[-8:], OF_ALL) == [{"id": letter, "tenant": "-"}]


def test_operations_are_found_by_the_end_of_their_id(ask: Ask, acme: UUID) -> None:
    asked = {"filter": {"tenant": "acme"}}
    operation = ask(asked, path="/api/admin/dlq/bulk-retry").body["operation_id"]
    assert [one["id"] for one in named(ask, "operation", operation[-8:])] == [operation]
    assert named(ask, "operation", "ffffffff", OF_ALL) == []
    assert named(ask, "operation", operation[-8:], "[viewer tenant:zenith]") == []


def test_documents_are_found_by_the_end_of_their_id(
    ask: Ask, acme: UUID, make_tenant: Callable[..., UUID], make_document: Callable[..., UUID]
) -> None:
    ours, theirs = str(make_document(acme)), str(make_document(make_tenant("zenith")))
    assert named(ask, "document", ours[-4:]) == [{"id": ours, "tenant": "acme"}]
    assert named(ask, "document", theirs) == []
    assert named(ask, "document", theirs[-12:], OF_ALL) == [{"id": theirs, "tenant": "zenith"}]


def test_users_find_their_own_tasks_and_an_admin_those_of_the_tenant(ask: Ask, acme: UUID) -> None:
    order = {"task_type": "echo", "payload": {}}
    task = ask(order, path="/api/tasks", subject="ann").body["job_id"]

    def found(groups: str, subject: str = "ann") -> list[str]:
        query = {"kind": "task", "part": task[-8:]}
        answer = ask("", method="GET", path="/api/admin/dlq/named", query=query, groups=groups, subject=subject)
        return [one["id"] for one in answer.body["found"]]

    assert found(OF_ACME) == found("[admin tenant:acme]", "ben") == [task]
    assert found(OF_ACME, "ben") == found("[admin tenant:zenith]") == []


@pytest.mark.parametrize(
    "query",
    [{"kind": "letter"}, {"kind": "letter", "part": "abc"}, {"kind": "letter", "part": "%%%%"}, {"part": "abcd"}],
)
@pytest.mark.usefixtures("acme")
def test_what_names_nothing_is_refused(ask: Ask, query: dict[str, str]) -> None:
    assert ask("", method="GET", path="/api/admin/dlq/named", query=query, groups=OF_ALL).status == 422
