"""Viewers list mail on hold. The tenant's operators release or reject it."""

import json
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from tests.delivery.harness import FakeSqs
from tests.factories import NOW, make_held_mail
from tests.functions.admin_api.conftest import CLAIMS, ApiResponse, CallApi

VIEWER, OPERATOR = "[viewer tenant:acme]", "[operator tenant:acme]"
PATH = "/api/admin/mail"


def decide(call_api: CallApi, mail: UUID, action: str, groups: str = OPERATOR, body: object = "") -> ApiResponse:
    return call_api(body, method="POST", path=f"{PATH}/{mail}/{action}", groups=groups)


def test_held_mail_is_listed_newest_first(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    created = [make_held_mail(admin, acme, received_at=NOW + timedelta(hours=hour)) for hour in range(3)]
    make_held_mail(admin, acme, hold="rejected")

    first = call_api("", method="GET", path=PATH, query={"limit": "2"}, groups=VIEWER).body
    second = call_api(
        "", method="GET", path=PATH, query={"limit": "2", "cursor": first["next_cursor"]}, groups=VIEWER
    ).body

    assert [UUID(item["id"]) for item in first["mails"] + second["mails"]] == created[::-1]
    assert second["next_cursor"] is None
    item = first["mails"][0]
    assert (item["sender"], item["spf"], item["dkim"], item["dmarc"], item["hold"]) == (
        *("Nordwind GmbH <buchhaltung@nordwind.example>", "fail", "none", "fail", "held"),
    )


@pytest.mark.parametrize(("action", "hold", "outbox_rows"), [("release", "released", 1), ("reject", "rejected", 0)])
def test_held_mail_is_decided_only_once(
    call_api: CallApi, admin: Connection, acme: UUID, action: str, hold: str, outbox_rows: int
) -> None:
    mail = make_held_mail(admin, acme)

    decision = decide(call_api, mail, action, body={"reason": "We called the supplier."})

    assert (decision.status, decision.body) == (200, {"id": str(mail), "tenant": "acme", "hold": hold})
    repeated = decide(call_api, mail, "release")
    detail = "The email is no longer on hold: it was already released or rejected."
    assert (repeated.status, repeated.body["detail"]) == (409, detail)
    assert admin.execute("SELECT count(*) FROM outbox WHERE worker = 'acquisition'").fetchone() == (outbox_rows,)
    assert admin.execute("SELECT action FROM audit_entry").fetchall() == [(f"mail {hold}",)]
    listed = call_api("", method="GET", path=PATH, query={"hold": hold}, groups=VIEWER).body["mails"]
    assert [UUID(item["id"]) for item in listed] == [mail]


def test_release_sends_the_message_immediately(
    call_api: CallApi, admin: Connection, acme: UUID, queue: FakeSqs
) -> None:
    decide(call_api, make_held_mail(admin, acme), "release")

    ((job, sent_at),) = admin.execute("SELECT work_id, sent_at FROM outbox").fetchall()
    (entry,) = queue.sent["counterfoil-acquisition"]
    assert UUID(json.loads(entry["MessageBody"])["work_id"]) == job
    assert sent_at is not None


POLICY = f"{PATH}/policy"
ADMIN = "[admin tenant:acme]"


def set_policy(call_api: CallApi, policy: str, previous: str, groups: str = ADMIN) -> ApiResponse:
    return call_api({"dmarc_policy": policy, "previous": previous}, method="PUT", path=POLICY, groups=groups)


def test_admin_changes_the_policy_of_their_tenant(
    call_api: CallApi, admin: Connection, acme: UUID, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")

    assert call_api("", method="GET", path=POLICY, groups=VIEWER).body == {"tenant": "acme", "dmarc_policy": "hold"}
    response = set_policy(call_api, "reject", "hold")

    assert (response.status, response.body) == (200, {"tenant": "acme", "dmarc_policy": "reject"})
    assert call_api("", method="GET", path=POLICY, groups=VIEWER).body == response.body
    assert admin.execute("SELECT slug, dmarc_policy FROM tenant ORDER BY slug").fetchall() == [
        ("acme", "reject"),
        ("other", "hold"),
    ]
    ((actor, action, targets, detail),) = admin.execute("SELECT actor, action, targets, detail FROM audit_entry")
    assert (actor, action, targets) == (CLAIMS["sub"], "dmarc policy changed", [str(acme)])
    assert detail == {"policy": "reject"}


def test_outdated_policy_change_returns_409(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    set_policy(call_api, "reject", "hold")

    stale = set_policy(call_api, "accept", "hold")

    assert (stale.status, stale.body["detail"]) == (
        409,
        "Someone else changed the policy first. Read it again, then decide.",
    )
    assert set_policy(call_api, "reject", "hold").status == 200
    assert admin.execute("SELECT dmarc_policy FROM tenant").fetchone() == ("reject",)
    assert admin.execute("SELECT count(*) FROM audit_entry").fetchone() == (1,)


def test_operator_cannot_change_the_policy(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    assert set_policy(call_api, "accept", "hold", OPERATOR).status == 403
    assert admin.execute("SELECT dmarc_policy FROM tenant").fetchone() == ("hold",)


def test_token_without_subject_changes_nothing(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    mail = make_held_mail(admin, acme)
    change = {"dmarc_policy": "accept", "previous": "hold"}

    assert call_api(change, method="PUT", path=POLICY, groups=ADMIN, subject="").status == 403
    assert call_api("", path=f"{PATH}/{mail}/release", groups=OPERATOR, subject="").status == 403
    assert admin.execute("SELECT dmarc_policy FROM tenant").fetchone() == ("hold",)
    assert admin.execute("SELECT hold FROM source").fetchone() == ("held",)


def test_viewer_cannot_release_held_mail(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    mail = make_held_mail(admin, acme)

    assert decide(call_api, mail, "release", VIEWER).status == 403
    assert admin.execute("SELECT hold FROM source").fetchone() == ("held",)


def test_other_tenants_mail_is_not_found(
    call_api: CallApi, admin: Connection, acme: UUID, make_tenant: Callable[..., UUID]
) -> None:
    foreign_mail = make_held_mail(admin, make_tenant("other"))

    foreign, unknown = (decide(call_api, mail, "release") for mail in (foreign_mail, uuid4()))

    assert (foreign.status, foreign.body) == (404, unknown.body)
    assert call_api("", method="GET", path=PATH, groups=VIEWER).body["mails"] == []
