"""Mail that fails DMARC follows its tenant's policy and an operator's decision."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from counterfoil import audit
from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Message, OutboxMessage
from counterfoil.documents import document_detail
from counterfoil.documents.mail import holds
from counterfoil.documents.mail.holds import Decision
from counterfoil.documents.mail.message import REFUSALS, Refusal
from tests.delivery.harness import rows
from tests.factories import NOW
from tests.functions.test_documents import pipeline
from tests.functions.test_mail import Mailbox, acme, files_of, mailbox
from tests.mail_factory import PDF, authentication_results, mail, received_mail

__all__ = ["acme", "mailbox", "pipeline"]

FORGED = received_mail(mail(("a.pdf", PDF)), results=authentication_results("fail", "none", "fail"))
Decide = Callable[[Connection, UUID, Decision], list[OutboxMessage] | None]


def source_of(admin: Connection) -> dict[str, Any]:
    (source,) = rows(admin, "source")
    return source


def job_of(admin: Connection, tenant_id: UUID) -> dict[str, Any]:
    (job,) = [job for job in rows(admin, "acquisition_job") if job["tenant_id"] == str(tenant_id)]
    return job


def set_policy(admin: Connection, policy: str) -> None:
    admin.execute("UPDATE tenant SET dmarc_policy = %s", [policy])


def decide(database: Database, tenant_id: UUID, action: Decide, source: dict[str, Any]) -> bool:
    """Release or reject an email. Return False if the email was not on hold."""
    with database.tenant(tenant_id) as connection:
        decision = Decision(UUID(source["id"]), "ann", NOW, "The supplier confirmed it.")
        return action(connection, tenant_id, decision) is not None


def deliver(mailbox: Mailbox, admin: Connection, tenant_id: UUID) -> None:
    """Deliver the current message for the acquisition job of the mail."""
    job = job_of(admin, tenant_id)
    message = Message(work_id=job["id"], revision=job["revision"], send_number=job["send_number"])
    mailbox.pipeline.acquire(message.model_dump_json())


def test_forged_mail_is_held_without_a_dead_letter(mailbox: Mailbox, admin: Connection, acme: UUID) -> None:
    mailbox.receive(FORGED)

    source, job = source_of(admin), job_of(admin, acme)
    assert (source["spf"], source["dkim"], source["dmarc"], source["hold"]) == ("fail", "none", "fail", "held")
    assert (source["rejection_reason"], job["skip_reason"]) == ("on_hold", REFUSALS[Refusal.ON_HOLD])
    assert (job["status"], job["lease_expires_at"], job["next_attempt_at"]) == (None, None, None)
    assert files_of(admin, acme) == []
    assert mailbox.objects() == {}
    assert rows(admin, "dead_letter") == []


def test_authenticated_mail_is_acquired_with_authentication_results(
    mailbox: Mailbox, admin: Connection, acme: UUID
) -> None:
    mailbox.receive(received_mail(mail(("a.pdf", PDF))))

    source = source_of(admin)
    assert (source["spf"], source["dkim"], source["dmarc"], source["hold"]) == ("pass", "pass", "pass", None)
    assert files_of(admin, acme) == ["a.pdf"]


def test_document_shows_its_mails_authentication_results(
    mailbox: Mailbox, admin: Connection, acme: UUID, database: Database
) -> None:
    mailbox.receive(received_mail(mail(("a.pdf", PDF)), results=authentication_results("softfail", "none", "none")))

    (document,) = rows(admin, "document")
    with database.tenant(acme) as connection:
        output = document_detail.show(connection, acme, UUID(document["id"]))
    assert output is not None
    assert (output.source.spf, output.source.dkim, output.source.dmarc) == ("softfail", "none", "none")


def test_released_mail_is_acquired_exactly_once(
    mailbox: Mailbox, admin: Connection, acme: UUID, database: Database
) -> None:
    mailbox.receive(FORGED)

    assert decide(database, acme, holds.release, source_of(admin))
    assert not decide(database, acme, holds.release, source_of(admin))
    assert not decide(database, acme, holds.reject, source_of(admin))
    for _ in range(3):  # redelivered
        deliver(mailbox, admin, acme)

    assert files_of(admin, acme) == ["a.pdf"]
    (document,) = rows(admin, "document")
    assert document["duplicate_uploads"] == 0
    source, job = source_of(admin), job_of(admin, acme)
    assert (source["hold"], source["rejection_reason"], source["dmarc"]) == ("released", None, "fail")
    assert (job["status"], job["revision"]) == ("succeeded", 2)


def test_reprocessed_rejected_mail_creates_no_documents(
    mailbox: Mailbox, admin: Connection, acme: UUID, database: Database, maintenance_database: Database
) -> None:
    mailbox.receive(FORGED)

    assert decide(database, acme, holds.reject, source_of(admin))
    assert not decide(database, acme, holds.release, source_of(admin))
    mailbox.reprocess(maintenance_database)

    assert (source_of(admin)["hold"], source_of(admin)["rejection_reason"]) == ("rejected", "rejected")
    assert job_of(admin, acme)["skip_reason"] == REFUSALS[Refusal.REJECTED]
    assert files_of(admin, acme) == []


@pytest.mark.parametrize(("decide_", "action"), [(holds.release, "mail released"), (holds.reject, "mail rejected")])
def test_decision_is_recorded_in_the_audit_trail(
    mailbox: Mailbox, admin: Connection, acme: UUID, database: Database, decide_: Decide, action: str
) -> None:
    mailbox.receive(FORGED)
    source = source_of(admin)

    decide(database, acme, decide_, source)
    decide(database, acme, decide_, source)

    with database.tenant(acme) as connection:
        (entry,) = audit.page(connection, acme, limit=9)
    assert (entry.actor, entry.action, entry.targets) == ("ann", action, [source["id"]])
    assert entry.note_hash is not None


@pytest.mark.parametrize(
    ("policy", "hold", "files"), [("hold", "held", []), ("reject", "rejected", []), ("accept", None, ["a.pdf"])]
)
def test_tenants_policy_applies_to_forged_mail(
    mailbox: Mailbox, admin: Connection, acme: UUID, policy: str, hold: str | None, files: list[str]
) -> None:
    set_policy(admin, policy)

    mailbox.receive(FORGED)

    assert (source_of(admin)["hold"], files_of(admin, acme)) == (hold, files)
    assert rows(admin, "dead_letter") == []


def test_mail_to_two_tenants_follows_each_policy(mailbox: Mailbox, admin: Connection, acme: UUID) -> None:
    zenith = mailbox.tenant("zenith", "in@zenith.example")
    admin.execute("UPDATE tenant SET dmarc_policy = 'accept' WHERE id = %s", [zenith])

    mailbox.receive(
        received_mail(
            mail(("a.pdf", PDF), to="rechnung@acme.example, in@zenith.example"),
            results=authentication_results(dmarc="fail"),
        )
    )

    assert (files_of(admin, acme), files_of(admin, zenith)) == ([], ["a.pdf"])


def test_forged_authentication_header_does_not_release_mail(mailbox: Mailbox, admin: Connection, acme: UUID) -> None:
    forged = received_mail(mail(("a.pdf", PDF)))  # with a forged results header

    mailbox.receive(received_mail(forged, results=authentication_results(dmarc="fail")))

    assert source_of(admin)["hold"] == "held"
    assert files_of(admin, acme) == []


@pytest.mark.parametrize("key", ["inbox/mail", "uploads/acme/mail.eml"])
def test_mail_without_authentication_results_is_acquired(
    mailbox: Mailbox, admin: Connection, acme: UUID, key: str
) -> None:
    content = FORGED if key.startswith("uploads/") else mail(("a.pdf", PDF)).as_bytes()

    mailbox.receive(content, key)

    source = source_of(admin)
    assert (source["spf"], source["dkim"], source["dmarc"], source["hold"]) == (None, None, None, None)
    assert files_of(admin, acme) == ["a.pdf"]


def test_held_forgery_does_not_block_genuine_mail(
    mailbox: Mailbox, admin: Connection, acme: UUID, database: Database
) -> None:
    mailbox.receive(FORGED)
    retained = source_of(admin)
    admin.execute("UPDATE source SET received_at = received_at - interval '1 day'")
    mailbox.receive(received_mail(mail(("b.pdf", PDF + b"other"))))
    assert files_of(admin, acme) == ["b.pdf"]

    mailbox.receive(received_mail(mail(("b.pdf", PDF + b"other"))))
    assert any(job["skip_reason"] == REFUSALS[Refusal.DUPLICATE] for job in rows(admin, "acquisition_job"))
    assert decide(database, acme, holds.reject, retained)
