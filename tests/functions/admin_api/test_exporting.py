"""`/api/admin/dlq/export`: what is small is answered as a file, the rest is written, and given to who may have it."""

import csv
import hmac
import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from counterfoil.dead_letters.search import DeadLetterFilter
from functions.admin_api import exporting
from tests.dead_letters.letters import NOON, Die
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import BUCKET, EVENT, Answer, Ask
from tests.functions.admin_api.letters import ADMIN, PATH, VIEWER, get, ids

USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
SECRET = "Bearer abcdefgh12345678"


@pytest.fixture
def export(ask: Ask) -> Callable[..., Answer]:
    """Ask for an export; the body of the answer is the file's text, or the stored export."""

    def send(*, groups: str = VIEWER, **query: str) -> Answer:
        return get(ask, "/export", groups=groups, **{"format": "json", **query})

    return send


Export = Callable[..., Answer]


def told(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.text.split("\n")[:-1]]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is, is too large for an answer."""
    monkeypatch.setattr(exporting, "AT_ONCE_BYTES", 0)


def test_json_lines_tell_each_letter_as_the_api_does(export: Export, die: Die, ask: Ask) -> None:
    died = ids([die(minute=minute) for minute in (2, 1, 0)])

    answer = export()

    assert [letter["job_id"] for letter in told(answer)] == died
    shown = json.loads(answer.text.replace("+00:00", "Z").split("\n")[0])  # metadata is as it was stored
    assert shown == get(ask, f"/{died[0]}").body
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="dead-letters-acme-2')
    assert answer.headers["Content-Disposition"].endswith('Z.jsonl"')
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_csv_has_the_same_letters(export: Export, die: Die) -> None:
    died = ids([die(minute=1), die("=HYPERLINK(1)")])

    answer = export(format="csv")

    names, *found = csv.reader(io.StringIO(answer.text, newline=""), strict=True)
    assert [row[names.index("job_id")] for row in found] == died
    assert found[1][names.index("metadata.last_error.message")] == "'=HYPERLINK(1)"
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"


def test_the_filter_is_that_of_the_list(
    export: Export, die: Die, settle: Callable[[UUID, str], None], ask: Ask
) -> None:
    first, second, third = (die(error, minute=minute) for minute, error in enumerate(("One", "Two", "Three")))
    settle(second, "ignored")
    filters: list[dict[str, str]] = [
        {},
        {"status": "ignored,resolved"},
        {"from_date": (NOON + timedelta(minutes=1)).isoformat()},
        {"to_date": (NOON + timedelta(minutes=2)).isoformat(), "status": "pending"},
        {"text": "three"},
        {"text": str(first)},
        {"task_type": "ingestion"},
        {"task_type": "echo"},
        {"fingerprint": get(ask).body["letters"][0]["fingerprint"]},
        {"tenant": "acme"},
    ]
    for asked in filters:
        listed = [letter["job_id"] for letter in get(ask, **asked).body["letters"]]
        assert (asked, [letter["job_id"] for letter in told(export(**asked))]) == (asked, listed)
    assert str(third) in export().text


@pytest.mark.parametrize(
    ("groups", "sees"), [(VIEWER, False), ("[operator tenant:acme edit-payloads]", False), (ADMIN, True)]
)
def test_secrets_are_for_admins_alone(groups: str, sees: bool, export: Export, die: Die) -> None:
    die(f"{SECRET} was refused")
    for file_format in ("csv", "json"):
        assert (SECRET in export(groups=groups, format=file_format).text) == sees


def keyed_hash(admin: Connection, selection: DeadLetterFilter) -> str:
    """What the trail has of a filter: who does not know the tenant's secret cannot try words of a search."""
    [(salt,)] = admin.execute("SELECT audit_salt FROM tenant").fetchall()
    return hmac.digest(salt, selection.hash, "sha256").hex()


def test_who_took_what_out_is_in_the_audit_trail(export: Export, die: Die, admin: Connection) -> None:
    died = [die(minute=minute) for minute in range(3)]

    answer = export(status="pending")

    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == (USER, "exported", [])
    assert entry["detail"] == {
        "filter": keyed_hash(admin, DeadLetterFilter(status=("pending",))),
        "format": "json",
        "letters": len(died),
        "bytes": len(answer.text.encode()),
        "redacted": True,
    }


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"format": "xlsx"}, 422),
        ({"format": ""}, 422),
        ({"limit": "5"}, 422),
        ({"cursor": "x"}, 422),
        ({"status": "gone"}, 422),
        ({"tenant": "other"}, 403),
        ({"from_date": "5"}, 422),
    ],
)
def test_what_cannot_be_exported_is_refused(query: dict[str, str], status: int, export: Export, acme: UUID) -> None:
    assert export(**query).status == status


@pytest.mark.parametrize("groups", ["[tenant:acme]", "[viewer tenant:other]", "[viewer]"])
def test_exporting_takes_a_viewer_of_the_tenant(groups: str, export: Export, die: Die, admin: Connection) -> None:
    die()
    assert export(groups=groups, tenant="acme").status == 403
    assert rows(admin, "audit_entry") == []


# -- stored exports --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("large")
def test_what_is_large_is_stored_and_told_where(export: Export, die: Die, ask: Ask, admin: Connection) -> None:
    die()

    answer = export(format="csv", status="pending")

    assert answer.status == 202
    export_id = answer.body["export_id"]
    assert answer.headers["Location"] == f"{PATH}/exports/{export_id}"
    shown = get(ask, f"/exports/{export_id}")
    assert shown.body == answer.body
    assert {name: shown.body[name] for name in ("state", "format", "letters", "redacted", "url")} == {
        "state": "writing",
        "format": "csv",
        "letters": 0,
        "redacted": True,
        "url": None,
    }
    (row,) = rows(admin, "dead_letter_export")
    assert row["selection"]["status"] == ["pending"]
    assert answer.body["requested_at"] == row["selection"]["to_date"]
    assert rows(admin, "audit_entry") == []  # nothing is taken out yet


def test_what_takes_too_long_to_read_is_stored(export: Export, die: Die, monkeypatch: pytest.MonkeyPatch) -> None:
    die()
    monkeypatch.setattr(exporting, "AT_ONCE_SECONDS", -1.0)
    assert export().status == 202


@pytest.mark.usefixtures("large")
def test_a_file_that_is_ready_is_given_by_a_link_and_that_is_told_once(
    export: Export, die: Die, ask: Ask, admin: Connection
) -> None:
    die()
    export_id = export().body["export_id"]
    admin.execute("UPDATE dead_letter_export SET state = 'ready', letters = 7, bytes = 4711")

    first, second = (get(ask, f"/exports/{export_id}") for _ in range(2))

    assert (first.status, first.body["state"], first.body["letters"]) == (200, "ready", 7)
    assert f"{BUCKET}" in first.body["url"]
    assert f"/dead-letters/{rows(admin, 'tenant')[0]['id']}/{export_id}.jsonl?" in first.body["url"]
    assert "X-Amz-Expires=300" in first.body["url"]
    assert first.body["url_expires_at"] <= second.body["url_expires_at"]
    assert first.headers["Cache-Control"] == "no-store"
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == (USER, "exported", [export_id])
    assert (entry["detail"]["letters"], entry["detail"]["bytes"]) == (7, 4711)
    assert entry["detail"]["filter"] == keyed_hash(admin, DeadLetterFilter())


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("asked_by", "groups", "subject", "status"),
    [
        (VIEWER, VIEWER, USER, 200),
        (VIEWER, VIEWER, "another", 404),
        (VIEWER, "[operator tenant:acme]", "another", 404),
        (VIEWER, ADMIN, "another", 200),
        (VIEWER, "[admin tenant:*]", "another", 200),
        (VIEWER, "[admin tenant:other]", USER, 404),
        (VIEWER, "[viewer tenant:other]", USER, 404),
        (VIEWER, "[tenant:acme]", USER, 404),
        (ADMIN, ADMIN, "another", 200),
        (ADMIN, VIEWER, USER, 404),
    ],
)
def test_a_file_is_for_who_asked_for_it_and_for_admins_of_the_tenant(
    asked_by: str, groups: str, subject: str, status: int, export: Export, die: Die, ask: Ask, admin: Connection
) -> None:
    """With secrets in it, it is for who is an admin now."""
    die()
    export_id = export(groups=asked_by).body["export_id"]
    admin.execute("UPDATE dead_letter_export SET state = 'ready'")

    listed = ask(
        "", method="GET", path=f"{PATH}/exports", groups=groups, subject=subject, query={"tenant": "acme"}
    ).body.get("exports", [])
    answer = ask("", method="GET", path=f"{PATH}/exports/{export_id}", groups=groups, subject=subject)

    assert answer.status == status
    assert [one["export_id"] for one in listed] == [export_id] * (status == 200)
    assert len(rows(admin, "audit_entry")) == (status == 200)


@pytest.mark.usefixtures("large")
def test_an_export_past_keeping_is_not_there(export: Export, die: Die, ask: Ask, admin: Connection) -> None:
    die()
    export_id = export().body["export_id"]
    admin.execute("UPDATE dead_letter_export SET expires_at = now()")
    assert get(ask, f"/exports/{export_id}").status == 404
    assert get(ask, "/exports").body == {"exports": [], "next": None}


@pytest.mark.usefixtures("large")
def test_exports_are_listed_without_their_links_and_nobody_takes_a_file_by_looking(
    export: Export, die: Die, ask: Ask, admin: Connection
) -> None:
    die()
    asked = [export(text=word).body for word in ("timed", "reading")]
    admin.execute("UPDATE dead_letter_export SET state = 'ready' WHERE id = %s", [asked[0]["export_id"]])

    answer = get(ask, "/exports")

    for one in asked:
        del one["url"], one["url_expires_at"]
    assert answer.body == {"exports": [asked[1], {**asked[0], "state": "ready"}], "next": None}
    assert "Amz" not in answer.text
    assert rows(admin, "audit_entry") == []
    assert [row["taken_by"] for row in rows(admin, "dead_letter_export")] == [[], []]


@pytest.mark.usefixtures("large")
def test_pages_of_exports_follow_one_another(export: Export, die: Die, ask: Ask) -> None:
    die()
    asked = [export(text=word).body["export_id"] for word in ("timed", "reading", "after")]

    first = get(ask, "/exports", limit="2").body
    rest = get(ask, "/exports", limit="2", cursor=first["next"]).body

    assert [one["export_id"] for one in first["exports"] + rest["exports"]] == asked[::-1]
    assert (len(first["exports"]), rest["next"]) == (2, None)


@pytest.mark.usefixtures("large")
def test_a_list_of_exports_is_sent_again_once_more_is_written(
    export: Export, die: Die, ask: Ask, admin: Connection
) -> None:
    die()
    export()
    tag = get(ask, "/exports").headers["ETag"]

    def again() -> int:
        headers = {"If-None-Match": tag}
        return ask("", method="GET", path=f"{PATH}/exports", groups=VIEWER, headers=headers).status

    assert again() == 304
    admin.execute("UPDATE dead_letter_export SET letters = 500")
    assert again() == 200


@pytest.mark.usefixtures("large")
def test_exports_of_another_tenant_are_not_in_a_list(
    export: Export, die: Die, ask: Ask, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    die()
    export()
    everybody = "[admin tenant:*]"
    assert get(ask, "/exports", groups=everybody, tenant="other").body["exports"] == []
    assert len(get(ask, "/exports", groups=everybody, tenant="acme").body["exports"]) == 1
    assert get(ask, "/exports", groups="[viewer tenant:other]", tenant="acme").status == 403
    assert get(ask, "/exports", groups=everybody).status == 422


@pytest.mark.usefixtures("large")
def test_a_token_that_names_nobody_has_no_exports(export: Export, die: Die, ask: Ask) -> None:
    """For it could not be told who takes one."""
    die()
    export_id = export().body["export_id"]
    for groups in (VIEWER, ADMIN):
        for path, status in (("", 200), (f"/{export_id}", 404)):
            answer = ask("", method="GET", path=f"{PATH}/exports{path}", groups=groups, claims={"sub": None})
            assert (answer.status, answer.body.get("exports", [])) == (status, [])


@pytest.mark.parametrize("export_id", [uuid4(), "1", "x" * 40])
def test_an_export_that_is_not_there_is_not_found(export_id: object, ask: Ask, acme: UUID) -> None:
    assert get(ask, f"/exports/{export_id}").status == 404


@pytest.mark.usefixtures("large")
def test_asking_again_asks_for_the_same_and_too_much_is_refused(export: Export, die: Die) -> None:
    die()
    assert export().body["export_id"] == export().body["export_id"]
    assert [export(text=word).status for word in ("timed", "reading", "after")] == [202, 202, 409]
    assert export(text="timed").status == 202


def test_the_largest_file_of_an_answer_fits_into_lambda_s(export: Export) -> None:
    headers = 10_000
    assert -(-exporting.AT_ONCE_BYTES // 3) * 4 + headers < 6 * 1024 * 1024
