"""One attempt to deliver a result as a signed webhook or as files in S3.

A circuit breaker guards the attempt.
"""

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
from counterfoil.webhooks.payload import SIGNATURE_HEADER, OutputJob, export_files, render_body, sign
from functions.document_output.limiter import DestinationLimiter

MIN_SECONDS_LEFT = 2.0
"""Minimum time left to start a call."""
USER_AGENT = "Counterfoil"


@dataclass(frozen=True)
class OutputDependencies:
    """Clients for destinations."""

    breakers: Breakers
    egress: Egress | None
    """None if the deployment has no internet access for webhooks."""
    bucket: str | None
    """Bucket for exports."""
    limiter: DestinationLimiter = field(default_factory=DestinationLimiter)


def deliver(attempt: TenantAttempt, dependencies: OutputDependencies) -> Outcome:
    """Deliver one revision to one destination.

    Raises:
        ServiceUnavailableError: the destination is temporarily unavailable.
        RejectedRequestError: the destination rejected the call, or its address is not permitted.
        BreakerOpenError: the destination's breaker is open.
        DeferredError: the destination is slow, and other deliveries have priority.
        InvalidSettingsError: the deployment has no internet access or bucket, or the destination has no secret.
        CancelledError: not enough time is left.
        StaleClaimError: a newer revision exists.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        loaded = destinations.load_job(connection, attempt.work_id, attempt.revision)
        if loaded is None:
            message = f"Revision {attempt.revision} of {attempt.work_id} was superseded"
            raise StaleClaimError(message)
        job, destination = loaded
        secrets = destinations.active_secrets(connection, destination.id, attempt.now())
    if not destination.is_active:
        return Skipped(f"The destination '{destination.name}' was removed", partial(_clear_payload, attempt.work_id))
    attempt.deadline.check()
    with (
        dependencies.limiter.slot(destination.id, destination.name, attempt.now()),
        dependencies.breakers.guard(f"{DESTINATION}{destination.id}"),
    ):
        status = _call(attempt, dependencies, job, destination, secrets)

    def effects(connection: Connection) -> Effects:
        connection.execute(
            "UPDATE output_job SET delivered_at = %s, response_status = %s WHERE id = %s",
            [attempt.now(), status, attempt.work_id],
        )
        return Effects()

    return Succeeded(effects)


def _clear_payload(job_id: UUID, connection: Connection) -> Effects:
    """Clear the payload of a delivery enqueued during its destination's removal."""
    connection.execute("UPDATE output_job SET payload = 'null' WHERE id = %s", [job_id])
    return Effects()


def _call(
    attempt: TenantAttempt,
    dependencies: OutputDependencies,
    job: OutputJob,
    destination: Destination,
    secrets: Sequence[str],
) -> int | None:
    """Make the delivery. Return the response status of a webhook; None for an export."""
    if destination.kind == "s3":
        if dependencies.bucket is None:
            raise InvalidSettingsError("UPLOADS_BUCKET is not set. Exports require a bucket.")
        export_files(dependencies.bucket, destination.tenant_slug, destination.address, job)
        return None
    if dependencies.egress is None:
        raise InvalidSettingsError(
            "WEBHOOKS_ENABLED is not set, so functions have no internet access. "
            "Deploy with -c enableWebhooks=true, then retry."
        )
    if not secrets:
        raise InvalidSettingsError(
            f"The destination '{destination.name}' has no secret. Rotate the secret to create one."
        )
    seconds = attempt.deadline.remaining()
    if seconds < MIN_SECONDS_LEFT:
        raise CancelledError("Canceled before the call because the invocation is about to end")
    content = render_body(job)
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "idempotency-key": job.key,
        SIGNATURE_HEADER: sign(content, secrets, int(attempt.now().timestamp())),
    }
    egress = dependencies.egress if destination.allows_internal else dependencies.egress.public_only()
    return egress.post(destination.address, content, headers, seconds=seconds)
