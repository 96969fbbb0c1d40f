"""`/api/admin/dlq/purge`: what is settled and old goes out of sight, once confirmed, and is had back within a week."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters.purges import PurgeSteps
from counterfoil.errors import DatabaseUnavailableError
from counterfoil.operations import engine
from tests.dead_letters.letters import NOON, Die
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import EVENT, Answer, Ask
from tests.functions.admin_api.letters import ADMIN, PATH, VIEWER, found, get, ids

USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
LATER = (NOON + timedelta(hours=1)).isoformat()
ALL = "resolved,ignored,retried"
Purge = Callable[..., Answer]


def operation(ask: Ask, path: str, *, groups: str = VIEWER, **query: str) -> Answer:
    return ask("", method="GET", path=f"/api/admin{path}", groups=groups, query=query)


@pytest.fixture
def purge(ask: Ask) -> Purge:
    """Asks how many would go, and then confirms these; `seen` is another If-Match, or "" for none."""

    def send(confirm: str | None = "acme", *, groups: str = ADMIN, seen: str | None = None, **query: str) -> Answer:
        wanted = {"before_date": LATER, "status": ALL, **query}
        plan = ask("", method="DELETE", path=f"{PATH}/purge", groups=groups, query=wanted)
        if confirm is None:
            return plan
        named = plan.headers.get("ETag", '"0"') if seen is None else seen
        headers = {"if-match": named} if named else {}
        wanted["confirm"] = confirm
        return ask("", method="DELETE", path=f"{PATH}/purge", groups=groups, query=wanted, headers=headers)

    return send


@pytest.fixture
def undo(ask: Ask) -> Callable[..., Answer]:
    def send(purge_id: object, *, groups: str = ADMIN, seen: str | None = '"1"') -> Answer:
        headers = {} if seen is None else {"if-match": seen}
        return ask("", path=f"/api/admin/operations/{purge_id}/restore", groups=groups, headers=headers)

    return send


@pytest.fixture
def letters(die: Die, settle: Callable[[UUID, str], None]) -> list[UUID]:
    """Letters in each state, of which the last one waits for a person."""
    died = [die(minute=minute) for minute in range(4)]
    for job_id, status in zip(died, ("retried", "resolved", "ignored", "pending"), strict=True):
        settle(job_id, status)
    return died


def go_on(database: Database, purge: dict[str, Any]) -> engine.Step | None:
    """The worker's next step."""
    id_ = UUID(purge["operation_id"])
    with database.delivery() as connection:
        (tenant_id,) = connection.execute("SELECT tenant_id FROM operation WHERE id = %s", [id_]).fetchall()[0]
    return engine.step(database, PurgeSteps(), id_, tenant_id, datetime.now(UTC))


def actions(admin: Connection) -> list[tuple[str, str, list[str], dict[str, Any]]]:
    return [
        (entry["actor"], entry["action"], entry["targets"], entry["detail"])
        for entry in sorted(rows(admin, "audit_entry"), key=lambda entry: entry["number"])
    ]


def test_without_the_slug_it_is_said_how_many_would_go_and_nothing_is_done(
    purge: Purge, letters: list[UUID], ask: Ask, admin: Connection
) -> None:
    answer = purge(None)

    assert answer.status == 200, answer.body
    assert answer.body == {
        "tenant": "acme",
        "died_before": "2026-03-02T13:00:00Z",
        "statuses": ["retried", "resolved", "ignored"],
        "count": 3,
        "confirm": "acme",
    }
    assert answer.headers["ETag"] == '"3"'
    assert len(found(get(ask))) == 4
    assert rows(admin, "operation") == rows(admin, "audit_entry") == []


def test_what_is_said_is_what_goes(purge: Purge, letters: list[UUID], ask: Ask, admin: Connection) -> None:
    query = {"status": "resolved,ignored", "before_date": (NOON + timedelta(minutes=2)).isoformat()}
    assert purge(None, **query).body["count"] == 1

    answer = purge(**query)

    assert (answer.status, answer.body["done"], answer.body["state"]) == (200, 1, "done")
    assert set(found(get(ask))) == {*ids(letters)} - {str(letters[1])}
    detail = {"died_before": "2026-03-02T12:02:00+00:00", "statuses": ["resolved", "ignored"]}
    assert actions(admin) == [(USER, "purged", [answer.body["operation_id"]], detail)]


@pytest.mark.parametrize("seen", ["", "*", '"1", *', 'W/"3"', '"2"', '"4"', "3"])
def test_what_nobody_was_shown_is_not_purged(seen: str, purge: Purge, letters: list[UUID], admin: Connection) -> None:
    answer = purge(seen=seen)

    assert answer.status == (428 if seen in {"", "*"} else 412), answer.body
    assert rows(admin, "operation") == rows(admin, "audit_entry") == []


def test_what_is_settled_between_the_look_and_the_purge_does_not_go(
    purge: Purge, letters: list[UUID], settle: Callable[[UUID, str], None], ask: Ask
) -> None:
    shown = purge(None).headers["ETag"]
    settle(letters[3], "ignored")

    answer = purge(seen=shown)

    says = "Nothing is purged: the number of letters that would go is 4 by now, and was 3."
    assert (answer.status, answer.body["detail"]) == (412, says)
    assert len(found(get(ask))) == 4
    assert purge(seen='"4"').body["done"] == 4


@pytest.mark.parametrize("confirm", ["Acme", "acm", "other", "", "*"])
def test_another_word_than_the_slug_confirms_nothing(
    confirm: str, purge: Purge, letters: list[UUID], admin: Connection
) -> None:
    answer = purge(confirm)
    assert answer.status == 422
    assert "confirm" in answer.body["detail"]
    assert rows(admin, "operation") == []


@pytest.mark.parametrize("status", ["pending", "resolved,pending", "", "all"])
def test_what_waits_for_a_person_cannot_be_purged(status: str, purge: Purge, letters: list[UUID]) -> None:
    assert purge(status=status).status == 422


def test_it_is_said_what_is_to_be_purged(ask: Ask, acme: UUID) -> None:
    query = {"status": ALL, "confirm": "acme"}
    answer = ask("", method="DELETE", path=f"{PATH}/purge", groups=ADMIN, query=query)
    assert (answer.status, "before_date" in answer.body["detail"]) == (422, True)


def test_what_is_resolved_or_ignored_goes_where_no_state_is_named(ask: Ask, letters: list[UUID]) -> None:
    query = {"before_date": "2026-03-03"}  # the day after they died
    plan, done = (
        ask(
            "",
            method="DELETE",
            path=f"{PATH}/purge",
            groups=ADMIN,
            query={**query, **more},
            headers={"if-match": '"2"'},
        )
        for more in ({}, {"confirm": "acme"})
    )

    assert (plan.status, plan.body["statuses"], plan.body["count"]) == (200, ["resolved", "ignored"], 2), plan.body
    assert (done.status, done.body["filter"]["to_date"]) == (200, "2026-03-03T00:00:00Z")
    assert set(found(get(ask))) == {str(letters[0]), str(letters[3])}


def test_what_dies_after_the_request_is_not_meant(purge: Purge, letters: list[UUID], admin: Connection) -> None:
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
def test_purging_takes_an_admin_of_the_tenant(
    confirm: str | None, groups: str, status: int, purge: Purge, letters: list[UUID], admin: Connection
) -> None:
    assert purge(confirm, groups=groups, tenant="acme").status == status
    assert bool(rows(admin, "operation")) == (status == 200 and confirm is not None)


def test_who_may_purge_for_several_tenants_says_for_which(purge: Purge, letters: list[UUID]) -> None:
    assert purge(groups="[admin tenant:*]").status == 422
    assert purge(groups="[admin tenant:*]", tenant="nobody", confirm="nobody").status == 404


def test_many_letters_go_by_and_by(
    purge: Purge, letters: list[UUID], ask: Ask, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PurgeSteps, "at_once", 2)

    answer = purge()

    assert (answer.status, answer.body["done"], answer.body["state"]) == (202, 2, "running")
    assert go_on(database, answer.body)
    assert found(get(ask)) == [str(letters[3])]


def test_a_purge_whose_step_cannot_be_taken_is_left_to_the_watchdog(
    purge: Purge, letters: list[UUID], monkeypatch: pytest.MonkeyPatch, database: Database, ask: Ask
) -> None:
    def away(*_: object) -> engine.Step:
        raise DatabaseUnavailableError("PostgreSQL is not available")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "step", away)
        answer = purge()
        assert answer.status == 202

    assert go_on(database, answer.body)
    assert found(get(ask)) == [str(letters[3])]


def test_an_undone_purge_brings_its_letters_back_once(
    purge: Purge, undo: Callable[..., Answer], letters: list[UUID], ask: Ask, admin: Connection
) -> None:
    before = get(ask).body["letters"]
    purge_id = purge().body["operation_id"]

    answer = undo(purge_id)

    assert answer.status == 200, answer.body
    assert [answer.body[name] for name in ("action", "done", "state", "requested_by")] == ["restore", 3, "done", USER]
    after = get(ask).body["letters"]
    assert [one | {"version": 0} for one in after] == [one | {"version": 0} for one in before]
    assert [action for _, action, *_ in actions(admin)] == ["purged", "purge undone"]
    again = undo(purge_id, seen='"2"')
    assert (again.status, again.body["detail"]) == (409, "The purge is undone already.")
    assert len(actions(admin)) == 2


def test_a_purge_is_shown_with_its_version_as_it_is_now(
    purge: Purge, undo: Callable[..., Answer], letters: list[UUID], ask: Ask
) -> None:
    done = purge()
    path = f"/operations/{done.body['operation_id']}"
    shown = operation(ask, path)
    assert (shown.status, shown.headers["ETag"], shown.body) == (200, '"1"', done.body)
    assert (done.headers["ETag"], done.body["version"], done.body["done"]) == ('"1"', 1, 3)

    assert done.body["restorable_until"] is not None

    undo(done.body["operation_id"])

    after = operation(ask, path)
    assert (after.headers["ETag"], after.body["restorable_until"]) == ('"2"', None)
    assert [one["version"] for one in operation(ask, "/operations", action="purge").body["operations"]] == [2]


def test_a_step_of_a_purge_is_no_change_of_what_it_means(
    purge: Purge, undo: Callable[..., Answer], letters: list[UUID], database: Database, ask: Ask
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PurgeSteps, "at_once", 2)
        begun = purge()
    assert go_on(database, begun.body)

    assert operation(ask, f"/operations/{begun.body['operation_id']}").body["done"] == 3
    assert undo(begun.body["operation_id"], seen=begun.headers["ETag"]).status == 200


@pytest.mark.parametrize(
    ("seen", "status"), [(None, 428), ("", 428), ("*", 428), ('"2"', 412), ('W/"1"', 412), ("1", 412)]
)
def test_a_purge_is_undone_only_as_it_was_seen(
    seen: str | None,
    status: int,
    purge: Purge,
    undo: Callable[..., Answer],
    letters: list[UUID],
    admin: Connection,
) -> None:
    answer = undo(purge().body["operation_id"], seen=seen)

    assert (answer.status, "If-Match" in answer.body["detail"] or seen == '"2"') == (status, True)
    assert rows(admin, "operation")[0]["restored_at"] is None


def test_who_looked_before_it_was_undone_is_told_so(
    purge: Purge, undo: Callable[..., Answer], letters: list[UUID], admin: Connection
) -> None:
    purge_id = purge().body["operation_id"]
    undo(purge_id)

    late = undo(purge_id)

    assert (late.status, late.body["detail"]) == (412, "The purge has changed: it is at version 2.")
    assert len(actions(admin)) == 2


def test_after_seven_days_a_purge_is_not_undone(
    purge: Purge, undo: Callable[..., Answer], letters: list[UUID], admin: Connection
) -> None:
    told = purge().body
    moments = [datetime.fromisoformat(told[name]) for name in ("requested_at", "restorable_until")]
    assert moments[1] - moments[0] == timedelta(days=7)
    admin.execute("UPDATE operation SET requested_at = requested_at - interval '7 days'")

    answer = undo(told["operation_id"])

    assert (answer.status, answer.body["detail"]) == (409, "A purge can be undone for 7 days.")
    assert rows(admin, "operation")[0]["restored_at"] is None


@pytest.mark.parametrize(
    ("groups", "status"), [("[admin tenant:other]", 404), ("[admin]", 404), (VIEWER, 403), ("[admin tenant:*]", 200)]
)
def test_a_foreign_purge_is_not_there(
    groups: str,
    status: int,
    purge: Purge,
    undo: Callable[..., Answer],
    letters: list[UUID],
    admin: Connection,
    ask: Ask,
) -> None:
    purge_id = purge().body["operation_id"]
    shown = {404: 404}.get(status, 200)
    assert operation(ask, f"/operations/{purge_id}", groups=groups).status == shown
    assert undo(purge_id, groups=groups).status == status
    assert (len(rows(admin, "operation")) == 1) == (status != 200)


@pytest.mark.parametrize("purge_id", [uuid4(), "1", "x" * 40])
def test_a_purge_that_is_not_there_is_not_undone(
    purge_id: object, undo: Callable[..., Answer], ask: Ask, acme: UUID
) -> None:
    assert undo(purge_id).status == operation(ask, f"/operations/{purge_id}").status == 404


def test_purges_are_listed_page_by_page_the_newest_first(
    purge: Purge, ask: Ask, acme: UUID, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    made = [purge(status=status).body["operation_id"] for status in ("resolved", "ignored", "retried")]
    purge("other", groups="[admin tenant:other]")

    first = operation(ask, "/operations", limit="2")
    second = operation(ask, "/operations", limit="2", cursor=first.body["next"])

    listed = [one["operation_id"] for page in (first, second) for one in page.body["operations"]]
    assert listed == made[::-1]
    assert second.body["next"] is None
    assert first.body["operations"][0]["filter"]["status"] == ["retried"]
    assert operation(ask, "/operations", groups="[viewer tenant:other]").body["operations"][0]["tenant"] == "other"
    assert operation(ask, "/operations", groups="[tenant:acme]").status == 403
