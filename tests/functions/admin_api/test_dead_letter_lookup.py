"""Lookup by the end of an id, limited to items that the caller may view."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from tests.dead_letters.dead_letter_factory import MakeDeadLetter, dead_letter_factory
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import CallApi

VIEWER, PLATFORM_VIEWER = "[viewer tenant:acme]", "[viewer tenant:*]"


def look_up(call_api: CallApi, kind: str, id_part: str, groups: str = VIEWER) -> list[dict[str, str]]:
    response = call_api(
        "", method="GET", path="/api/admin/dlq/lookup", query={"kind": kind, "part": id_part}, groups=groups
    )
    assert response.status == 200, response.text
    items: list[dict[str, str]] = response.body["found"]
    return items


@pytest.mark.parametrize("characters", [4, 8, 9, 12, 13, 36])
def test_dead_letter_is_found_by_id_suffix(call_api: CallApi, add_dead_letter: MakeDeadLetter, characters: int) -> None:
    job_id, _ = str(add_dead_letter()), add_dead_letter()
    assert look_up(call_api, "dead_letter", job_id[-characters:]) == [{"id": job_id, "tenant": "acme"}]


def test_ambiguous_suffix_returns_at_most_two_matches(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection
) -> None:
    for _ in range(3):
        add_dead_letter()
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")  # disables foreign keys
        admin.execute("UPDATE dead_letter SET job_id = overlay(job_id::text placing 'abcd' from 33)::uuid")
    assert len(look_up(call_api, "dead_letter", "abcd")) == 2


def test_items_of_other_tenants_are_not_found(
    call_api: CallApi,
    add_dead_letter: MakeDeadLetter,
    database: Database,
    make_tenant: Callable[..., UUID],
    admin: Connection,
) -> None:
    own, foreign = (
        add_dead_letter("Ours is full"),
        dead_letter_factory(database, make_tenant("zenith"))("Theirs timed out"),
    )
    suffix = str(foreign)[-8:]
    fingerprint = {item["job_id"]: item["fingerprint"] for item in rows(admin, "dead_letter")}[str(foreign)]

    assert look_up(call_api, "dead_letter", suffix) == look_up(call_api, "group", fingerprint) == []
    assert look_up(call_api, "dead_letter", suffix, PLATFORM_VIEWER) == [{"id": str(foreign), "tenant": "zenith"}]
    assert look_up(call_api, "group", fingerprint[:4], PLATFORM_VIEWER) == [{"id": fingerprint, "tenant": "zenith"}]
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [own])
    assert look_up(call_api, "dead_letter", str(own)[-8:]) == []


def test_unassigned_dead_letter_requires_all_tenants(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection
) -> None:
    job_id = str(add_dead_letter())
    admin.execute("UPDATE dead_letter SET tenant_id = NULL, work_id = NULL, revision = NULL")
    assert look_up(call_api, "dead_letter", job_id[-8:]) == []
    assert look_up(call_api, "dead_letter", job_id[-8:], PLATFORM_VIEWER) == [{"id": job_id, "tenant": "-"}]


def test_operation_is_found_by_id_suffix(call_api: CallApi, acme: UUID) -> None:
    body = {"filter": {"tenant": "acme"}}
    operation = call_api(body, path="/api/admin/dlq/bulk-retry").body["operation_id"]
    assert [item["id"] for item in look_up(call_api, "operation", operation[-8:])] == [operation]
    assert look_up(call_api, "operation", "ffffffff", PLATFORM_VIEWER) == []
    assert look_up(call_api, "operation", operation[-8:], "[viewer tenant:zenith]") == []


def test_document_is_found_by_id_suffix(
    call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID], make_document: Callable[..., UUID]
) -> None:
    own, foreign = str(make_document(acme)), str(make_document(make_tenant("zenith")))
    assert look_up(call_api, "document", own[-4:]) == [{"id": own, "tenant": "acme"}]
    assert look_up(call_api, "document", foreign) == []
    assert look_up(call_api, "document", foreign[-12:], PLATFORM_VIEWER) == [{"id": foreign, "tenant": "zenith"}]


def test_task_is_found_by_its_user_and_admins(call_api: CallApi, acme: UUID) -> None:
    body = {"task_type": "echo", "payload": {}}
    task = call_api(body, path="/api/tasks", subject="ann").body["job_id"]

    def task_ids(groups: str, subject: str = "ann") -> list[str]:
        query = {"kind": "task", "part": task[-8:]}
        response = call_api("", method="GET", path="/api/admin/dlq/lookup", query=query, groups=groups, subject=subject)
        return [item["id"] for item in response.body["found"]]

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
def test_invalid_lookup_is_rejected(call_api: CallApi, query: dict[str, str]) -> None:
    assert call_api("", method="GET", path="/api/admin/dlq/lookup", query=query, groups=PLATFORM_VIEWER).status == 422
