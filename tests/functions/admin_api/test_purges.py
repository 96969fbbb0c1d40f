"""`/api/admin/dlq/purge`: purge preview, confirmation and undo."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters.purges import PurgeSteps
from counterfoil.errors import DatabaseUnavailableError
from counterfoil.operations import engine
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import EVENT, ApiResponse, CallApi
from tests.functions.admin_api.dead_letter_requests import ADMIN, PATH, VIEWER, get, ids, listed_ids

USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
LATER = (NOON + timedelta(hours=1)).isoformat()
ALL = "resolved,ignored,retried"
Purge = Callable[..., ApiResponse]


def operation(call_api: CallApi, path: str, *, groups: str = VIEWER, **query: str) -> ApiResponse:
    return call_api("", method="GET", path=f"/api/admin{path}", groups=groups, query=query)


@pytest.fixture
def purge(call_api: CallApi) -> Purge:
    """`purge(confirm, ...)` previews a purge and confirms it.

    If `confirm` is None, the purge is only previewed. `if_match` replaces the preview's ETag, and "" sends no If-Match.
    """

    def send(
        confirm: str | None = "acme", *, groups: str = ADMIN, if_match: str | None = None, **query: str
    ) -> ApiResponse:
        parameters = {"before_date": LATER, "status": ALL, **query}
        plan = call_api("", method="DELETE", path=f"{PATH}/purge", groups=groups, query=parameters)
        if confirm is None:
            return plan
        etag = plan.headers.get("ETag", '"0"') if if_match is None else if_match
        headers = {"if-match": etag} if etag else {}
        parameters["confirm"] = confirm
        return call_api("", method="DELETE", path=f"{PATH}/purge", groups=groups, query=parameters, headers=headers)

    return send


@pytest.fixture
def undo(call_api: CallApi) -> Callable[..., ApiResponse]:
    def send(purge_id: object, *, groups: str = ADMIN, if_match: str | None = '"1"') -> ApiResponse:
        headers = {} if if_match is None else {"if-match": if_match}
        return call_api("", path=f"/api/admin/operations/{purge_id}/restore", groups=groups, headers=headers)

    return send


@pytest.fixture
def dead_letter_ids(add_dead_letter: MakeDeadLetter, set_status: Callable[[UUID, str], None]) -> list[UUID]:
    """Ids of four dead letters: retried, resolved, ignored and pending."""
    job_ids = [add_dead_letter(minute=minute) for minute in range(4)]
    for job_id, status in zip(job_ids, ("retried", "resolved", "ignored", "pending"), strict=True):
        set_status(job_id, status)
    return job_ids


def run_step(database: Database, purge: dict[str, Any]) -> engine.StepResult | None:
    """Run the worker's next step."""
    id_ = UUID(purge["operation_id"])
    with database.delivery() as connection:
        (tenant_id,) = connection.execute("SELECT tenant_id FROM operation WHERE id = %s", [id_]).fetchall()[0]
    return engine.run_step(database, PurgeSteps(), id_, tenant_id, datetime.now(UTC))


def actions(admin: Connection) -> list[tuple[str, str, list[str], dict[str, Any]]]:
    return [
        (entry["actor"], entry["action"], entry["targets"], entry["detail"])
        for entry in sorted(rows(admin, "audit_entry"), key=lambda entry: entry["number"])
    ]


def test_preview_counts_dead_letters_without_purging(
    purge: Purge, dead_letter_ids: list[UUID], call_api: CallApi, admin: Connection
) -> None:
    response = purge(None)

    assert response.status == 200, response.body
    assert response.body == {
        "tenant": "acme",
        "failed_before": "2026-03-02T13:00:00Z",
        "statuses": ["retried", "resolved", "ignored"],
        "count": 3,
        "confirm": "acme",
    }
    assert response.headers["ETag"] == '"3"'
    assert len(listed_ids(get(call_api))) == 4
    assert rows(admin, "operation") == rows(admin, "audit_entry") == []


def test_purge_hides_the_previewed_dead_letters(
    purge: Purge, dead_letter_ids: list[UUID], call_api: CallApi, admin: Connection
) -> None:
    query = {"status": "resolved,ignored", "before_date": (NOON + timedelta(minutes=2)).isoformat()}
    assert purge(None, **query).body["count"] == 1

    response = purge(**query)

    assert (response.status, response.body["succeeded"], response.body["state"]) == (200, 1, "done")
    assert set(listed_ids(get(call_api))) == {*ids(dead_letter_ids)} - {str(dead_letter_ids[1])}
    detail = {"failed_before": "2026-03-02T12:02:00+00:00", "statuses": ["resolved", "ignored"]}
    assert actions(admin) == [(USER, "purged", [response.body["operation_id"]], detail)]


@pytest.mark.parametrize("if_match", ["", "*", '"1", *', 'W/"3"', '"2"', '"4"', "3"])
def test_purge_requires_the_etag_of_the_preview(
    if_match: str, purge: Purge, dead_letter_ids: list[UUID], admin: Connection
) -> None:
    response = purge(if_match=if_match)

    assert response.status == (428 if if_match in {"", "*"} else 412), response.body
    assert rows(admin, "operation") == rows(admin, "audit_entry") == []


def test_changed_count_after_preview_rejects_the_purge(
    purge: Purge, dead_letter_ids: list[UUID], set_status: Callable[[UUID, str], None], call_api: CallApi
) -> None:
    etag = purge(None).headers["ETag"]
    set_status(dead_letter_ids[3], "ignored")

    response = purge(if_match=etag)

    message = "Nothing was purged: the number of dead letters has changed since the preview, from 3 to 4."
    assert (response.status, response.body["detail"]) == (412, message)
    assert len(listed_ids(get(call_api))) == 4
    assert purge(if_match='"4"').body["succeeded"] == 4


@pytest.mark.parametrize("confirm", ["Acme", "acm", "other", "", "*"])
def test_incorrect_confirmation_purges_nothing(
    confirm: str, purge: Purge, dead_letter_ids: list[UUID], admin: Connection
) -> None:
    response = purge(confirm)
    assert response.status == 422
    assert "confirm" in response.body["detail"]
    assert rows(admin, "operation") == []


@pytest.mark.parametrize("status", ["pending", "resolved,pending", "", "all"])
def test_pending_dead_letters_cannot_be_purged(status: str, purge: Purge, dead_letter_ids: list[UUID]) -> None:
    assert purge(status=status).status == 422


def test_purge_requires_a_date(call_api: CallApi, acme: UUID) -> None:
    query = {"status": ALL, "confirm": "acme"}
    response = call_api("", method="DELETE", path=f"{PATH}/purge", groups=ADMIN, query=query)
    assert (response.status, "before_date" in response.body["detail"]) == (422, True)


def test_default_statuses_are_resolved_and_ignored(call_api: CallApi, dead_letter_ids: list[UUID]) -> None:
    query = {"before_date": "2026-03-03"}  # the day after the dead letters were created
    plan, purged = (
        call_api(
            "",
            method="DELETE",
            path=f"{PATH}/purge",
            groups=ADMIN,
            query={**query, **confirmation},
            headers={"if-match": '"2"'},
        )
        for confirmation in ({}, {"confirm": "acme"})
    )

    assert (plan.status, plan.body["statuses"], plan.body["count"]) == (200, ["resolved", "ignored"], 2), plan.body
    assert (purged.status, purged.body["filter"]["to_date"]) == (200, "2026-03-03T00:00:00Z")
    assert set(listed_ids(get(call_api))) == {str(dead_letter_ids[0]), str(dead_letter_ids[3])}


def test_purge_excludes_failures_after_the_request(
    purge: Purge, dead_letter_ids: list[UUID], admin: Connection
) -> None:
    purge(before_date="9999-12-31T00:00:00Z")
    (row,) = rows(admin, "operation")
    assert datetime.fromisoformat(row["filter"]["to_date"]) == datetime.fromisoformat(row["requested_at"])


@pytest.mark.parametrize("confirm", [None, "acme"])
@pytest.mark.parametrize(
    ("groups", "status"),
    [
        (VIEWER, 403),
        ("[operator tenant:acme edit-payloads]", 403),
        ("[admin tenant:other]", 403),
        ("[admin]", 403),
        ("[tenant:acme]", 403),
        (ADMIN, 200),
        ("[admin tenant:*]", 200),
    ],
)
def test_purge_requires_admin_role_for_tenant(
    confirm: str | None, groups: str, status: int, purge: Purge, dead_letter_ids: list[UUID], admin: Connection
) -> None:
    assert purge(confirm, groups=groups, tenant="acme").status == status
    assert bool(rows(admin, "operation")) == (status == 200 and confirm is not None)


def test_platform_admin_must_name_the_tenant(purge: Purge, dead_letter_ids: list[UUID]) -> None:
    assert purge(groups="[admin tenant:*]").status == 422
    assert purge(groups="[admin tenant:*]", tenant="missing", confirm="missing").status == 404


def test_large_purge_continues_after_the_request(
    purge: Purge, dead_letter_ids: list[UUID], call_api: CallApi, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PurgeSteps, "batch_size", 2)

    response = purge()

    assert (response.status, response.body["succeeded"], response.body["state"]) == (202, 2, "running")
    assert run_step(database, response.body)
    assert listed_ids(get(call_api)) == [str(dead_letter_ids[3])]


def test_step_continues_purge_after_database_outage(
    purge: Purge, dead_letter_ids: list[UUID], monkeypatch: pytest.MonkeyPatch, database: Database, call_api: CallApi
) -> None:
    def unavailable(*_: object) -> engine.StepResult:
        raise DatabaseUnavailableError("PostgreSQL is not available")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "run_step", unavailable)
        response = purge()
        assert response.status == 202

    assert run_step(database, response.body)
    assert listed_ids(get(call_api)) == [str(dead_letter_ids[3])]


def test_undo_restores_dead_letters_once(
    purge: Purge, undo: Callable[..., ApiResponse], dead_letter_ids: list[UUID], call_api: CallApi, admin: Connection
) -> None:
    before = get(call_api).body["dead_letters"]
    purge_id = purge().body["operation_id"]

    response = undo(purge_id)

    assert response.status == 200, response.body
    assert [response.body[name] for name in ("action", "succeeded", "state", "requested_by")] == [
        "restore",
        3,
        "done",
        USER,
    ]
    after = get(call_api).body["dead_letters"]
    assert [item | {"version": 0} for item in after] == [item | {"version": 0} for item in before]
    assert [action for _, action, *_ in actions(admin)] == ["purged", "purge undone"]
    second_undo = undo(purge_id, if_match='"2"')
    assert (second_undo.status, second_undo.body["detail"]) == (409, "The purge was already undone.")
    assert len(actions(admin)) == 2


def test_purge_shows_its_current_version(
    purge: Purge, undo: Callable[..., ApiResponse], dead_letter_ids: list[UUID], call_api: CallApi
) -> None:
    purged = purge()
    path = f"/operations/{purged.body['operation_id']}"
    details = operation(call_api, path)
    assert (details.status, details.headers["ETag"], details.body) == (200, '"1"', purged.body)
    assert (purged.headers["ETag"], purged.body["version"], purged.body["succeeded"]) == ('"1"', 1, 3)

    assert purged.body["restorable_until"] is not None

    undo(purged.body["operation_id"])

    after = operation(call_api, path)
    assert (after.headers["ETag"], after.body["restorable_until"]) == ('"2"', None)
    assert [item["version"] for item in operation(call_api, "/operations", action="purge").body["operations"]] == [2]


def test_purge_step_does_not_change_the_version(
    purge: Purge, undo: Callable[..., ApiResponse], dead_letter_ids: list[UUID], database: Database, call_api: CallApi
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PurgeSteps, "batch_size", 2)
        started = purge()
    assert run_step(database, started.body)

    assert operation(call_api, f"/operations/{started.body['operation_id']}").body["succeeded"] == 3
    assert undo(started.body["operation_id"], if_match=started.headers["ETag"]).status == 200


@pytest.mark.parametrize(
    ("if_match", "status"), [(None, 428), ("", 428), ("*", 428), ('"2"', 412), ('W/"1"', 412), ("1", 412)]
)
def test_undo_requires_the_current_version(
    if_match: str | None,
    status: int,
    purge: Purge,
    undo: Callable[..., ApiResponse],
    dead_letter_ids: list[UUID],
    admin: Connection,
) -> None:
    response = undo(purge().body["operation_id"], if_match=if_match)

    assert (response.status, "If-Match" in response.body["detail"] or if_match == '"2"') == (status, True)
    assert rows(admin, "operation")[0]["restored_at"] is None


def test_second_undo_at_old_version_is_rejected(
    purge: Purge, undo: Callable[..., ApiResponse], dead_letter_ids: list[UUID], admin: Connection
) -> None:
    purge_id = purge().body["operation_id"]
    undo(purge_id)

    stale = undo(purge_id)

    assert (stale.status, stale.body["detail"]) == (412, "The purge has changed: it is at version 2.")
    assert len(actions(admin)) == 2


def test_purge_cannot_be_undone_after_seven_days(
    purge: Purge, undo: Callable[..., ApiResponse], dead_letter_ids: list[UUID], admin: Connection
) -> None:
    body = purge().body
    times = [datetime.fromisoformat(body[name]) for name in ("requested_at", "restorable_until")]
    assert times[1] - times[0] == timedelta(days=7)
    admin.execute("UPDATE operation SET requested_at = requested_at - interval '7 days'")

    response = undo(body["operation_id"])

    assert (response.status, response.body["detail"]) == (409, "A purge can be undone for 7 days.")
    assert rows(admin, "operation")[0]["restored_at"] is None


@pytest.mark.parametrize(
    ("groups", "status"), [("[admin tenant:other]", 404), ("[admin]", 404), (VIEWER, 403), ("[admin tenant:*]", 200)]
)
def test_undo_requires_admin_role_for_tenant(
    groups: str,
    status: int,
    purge: Purge,
    undo: Callable[..., ApiResponse],
    dead_letter_ids: list[UUID],
    admin: Connection,
    call_api: CallApi,
) -> None:
    purge_id = purge().body["operation_id"]
    expected = {404: 404}.get(status, 200)
    assert operation(call_api, f"/operations/{purge_id}", groups=groups).status == expected
    assert undo(purge_id, groups=groups).status == status
    assert (len(rows(admin, "operation")) == 1) == (status != 200)


@pytest.mark.parametrize("purge_id", [uuid4(), "1", "x" * 40])
def test_undo_of_unknown_purge_returns_404(
    purge_id: object, undo: Callable[..., ApiResponse], call_api: CallApi, acme: UUID
) -> None:
    assert undo(purge_id).status == operation(call_api, f"/operations/{purge_id}").status == 404


def test_purges_are_paged_newest_first(
    purge: Purge, call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    operation_ids = [purge(status=status).body["operation_id"] for status in ("resolved", "ignored", "retried")]
    purge("other", groups="[admin tenant:other]")

    first = operation(call_api, "/operations", limit="2")
    second = operation(call_api, "/operations", limit="2", cursor=first.body["next_cursor"])

    listed = [item["operation_id"] for page in (first, second) for item in page.body["operations"]]
    assert listed == operation_ids[::-1]
    assert second.body["next_cursor"] is None
    assert first.body["operations"][0]["filter"]["status"] == ["retried"]
    assert operation(call_api, "/operations", groups="[viewer tenant:other]").body["operations"][0]["tenant"] == "other"
    assert operation(call_api, "/operations", groups="[tenant:acme]").status == 403
