"""One attempt at delivering a result: signed to a webhook, or as files to S3, behind the destination's breaker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from counterfoil.circuit_breaker import DESTINATION, Breakers
from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.egress import Egress
from counterfoil.errors import CancelledError, InvalidSettingsError, StaleClaimError
from counterfoil.webhooks import destinations
from counterfoil.webhooks.destinations import Destination
from counterfoil.webhooks.payload import HEADER, Job, body, export, signature
from functions.document_output.lanes import Lanes

LEAST_SECONDS = 2.0
"""Of a call: with less than this left of the try, none is made."""
USER_AGENT = "Counterfoil"


@dataclass(frozen=True)
class Ways:
    """How this function reaches destinations."""

    breakers: Breakers
    egress: Egress | None
    """None: the deployment has no way to the internet for webhooks."""
    bucket: str | None
    """Of exports."""
    lanes: Lanes = field(default_factory=Lanes)


def deliver(attempt: TenantAttempt, ways: Ways) -> Outcome:
    """Deliver one revision to one destination.

    Raises:
        ServiceUnavailableError: the destination was away, and may be there later.
        RejectedRequestError: it refuses, or is somewhere that may not be called.
        BreakerOpenError: it has failed for long; it is left alone for a while.
        DeferredError: it answers slowly, and others go first.
        InvalidSettingsError: the deployment lacks the way, or the destination its secret.
        CancelledError: no time is left.
        StaleClaimError: a newer revision has begun.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        loaded = destinations.load(connection, attempt.work_id, attempt.revision)
        if loaded is None:
            message = f"A newer revision than {attempt.revision} exists of {attempt.work_id}"
            raise StaleClaimError(message)
        job, destination = loaded
        secrets = destinations.active_secrets(connection, destination.id, attempt.now())
    if not destination.is_active:
        return Skipped(f"The destination '{destination.name}' was removed", partial(_forget, attempt.work_id))
    attempt.deadline.check()
    with (
        ways.lanes.lane(destination.id, destination.name, attempt.now()),
        ways.breakers.guard(f"{DESTINATION}{destination.id}"),
    ):
        status = _call(attempt, ways, job, destination, secrets)

    def effects(connection: Connection) -> Effects:
        connection.execute(
            "UPDATE output_job SET delivered_at = %s, response_status = %s WHERE id = %s",
            [attempt.now(), status, attempt.work_id],
        )
        return Effects()

    return Succeeded(effects)


def _forget(job_id: UUID, connection: Connection) -> Effects:
    """Drop what was asked for while the destination was being removed, which forgot only what was there by then."""
    connection.execute("UPDATE output_job SET payload = 'null' WHERE id = %s", [job_id])
    return Effects()


def _call(attempt: TenantAttempt, ways: Ways, job: Job, destination: Destination, secrets: Sequence[str]) -> int | None:
    """Make the delivery. Returns the status of the answer, where it is a webhook's."""
    if destination.kind == "s3":
        if ways.bucket is None:
            raise InvalidSettingsError("UPLOADS_BUCKET is not set: it names the bucket that exports go to.")
        export(ways.bucket, destination.tenant_slug, destination.address, job)
        return None
    if ways.egress is None:
        raise InvalidSettingsError(
            "WEBHOOKS is not set: functions have no way to the internet. Deploy with -c webhooks=true, then send again."
        )
    if not secrets:
        raise InvalidSettingsError(f"The destination '{destination.name}' has no secret: rotate it to give it one.")
    seconds = attempt.deadline.remaining()
    if seconds < LEAST_SECONDS:
        raise CancelledError("Stopped before the call because the invocation is about to end")
    content = body(job)
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "idempotency-key": job.key,
        HEADER: signature(content, secrets, int(attempt.now().timestamp())),
    }
    egress = ways.egress if destination.allows_internal else ways.egress.public()
    return egress.post(destination.address, content, headers, seconds=seconds)
