"""A day's offers are identical when processes are killed at any step.

As in `test_recovery`, the messages that killed processes received are lost too, so the watchdog must resend them.
`make soak` repeats the day more often.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from typing import Any
from uuid import UUID

import psycopg
import pytest

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant, add_tenant
from counterfoil.db import Connection
from counterfoil.offers import pinning
from counterfoil.offers.schedule import Rules, due_on
from counterfoil.webhooks.destinations import NewDestination
from tests.e2e.chaos import watchdog_running
from tests.e2e.load import LOAD_SECONDS
from tests.e2e.polling import wait_until
from tests.e2e.test_recovery import WAITING_WORKERS, function_settings, kill

pytestmark = pytest.mark.e2e

DAY = datetime.now(UTC).date()
"""Today, because the watchdog would delete the offers of a fixed past date."""
ZONES = {"Europe/Berlin": 180, "Asia/Kathmandu": 120}
"""Number of users by time zone."""
SHARD_USERS = 60
SHARDS = 5
RULES = Rules(max_offers=5, max_candidates=1000, max_exposure=None, repeat_interval_days=30)
STEPS = ("offer_shard", "offer_pool", "user_block", "matchmaking_jobs", "offers", "output_job")
"""Tables in the order in which the worker uses them. Locking a table stops the worker at that step."""
DAYS = max(len(STEPS), LOAD_SECONDS // 7)
_PEOPLE = """
INSERT INTO profile (user_id, external_id, tenant_id, timezone, birth_date, gender, seeks_genders, min_age, max_age,
                     latitude, longitude, max_distance_km, traits, updated_at)
SELECT gen_random_uuid(), gen_random_uuid(), %(tenant)s, %(zone)s,
       date '1980-01-01' + 37 * n, (ARRAY['woman', 'man'])[1 + n %% 2],
       ARRAY[(ARRAY['woman', 'man'])[1 + (n / 2) %% 2]], 18, 99, 50 + n / 1000.0, 10 + n / 700.0, 200,
       ARRAY[sin(n), cos(n), sin(2 * n)]::real[], now()
FROM generate_series(1, %(people)s) AS n
"""
_FORGET = """
WITH pool AS (DELETE FROM offer_pool WHERE tenant_id = %(tenant)s), jobs AS (
    DELETE FROM matchmaking_jobs WHERE tenant_id = %(tenant)s
) DELETE FROM outbox WHERE tenant_id = %(tenant)s AND worker = 'offers'
"""


@contextmanager
def paused_workers(cloud: Cloud) -> Iterator[None]:
    """Stop polling both of the offers worker's queues during the block."""
    functions = cloud.client("lambda")
    mappings = [cloud.outputs["OffersMappingId"], cloud.outputs["OffersRetryMappingId"]]
    for mapping in mappings:
        functions.update_event_source_mapping(UUID=mapping, Enabled=False)
    try:
        yield
    finally:
        for mapping in mappings:
            functions.update_event_source_mapping(UUID=mapping, Enabled=True)


@contextmanager
def disabled_schedule(cloud: Cloud) -> Iterator[None]:
    """Disable the schedule, which pins pools, during the block.

    Before 9:00 in a time zone, the scheduler would create the previous day's offers. Later repetitions would then
    exclude the candidates of these offers.
    """
    functions, name = cloud.client("lambda"), cloud.outputs["OffersSchedulerFunctionName"]
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        with pytest.raises(functions.exceptions.TooManyRequestsException):
            functions.invoke(FunctionName=name, Payload="{}")
        yield
    finally:
        functions.delete_function_concurrency(FunctionName=name)  # restores the schedule's previous state


def pin(cloud: Cloud, tenant: Tenant) -> None:
    """Delete the day's results, and queue the day's offers again."""
    with psycopg.connect(cloud.database_url("postgres")) as owner:
        owner.execute(_FORGET, {"tenant": tenant.id})
    messages = []
    for zone in ZONES:
        due_zones = due_on(zone, DAY)
        with cloud.database.tenant(tenant.id) as connection:
            messages += pinning.pin(connection, tenant.id, due_zones, RULES, SHARD_USERS, datetime.now(UTC))
    assert len(messages) == SHARDS
    for send in messages:
        body = send.message.model_dump_json()
        cloud.client("sqs").send_message(QueueUrl=cloud.outputs["OffersQueueUrl"], MessageBody=body)


def offer_results(admin: Connection, tenant: Tenant) -> dict[UUID, tuple[Any, ...]]:
    """Return the day's offers as text by user, with the digests of their inputs."""
    rows = admin.execute(
        "SELECT user_id, status, offers::text, inputs_hash FROM matchmaking_jobs WHERE tenant_id = %s", [tenant.id]
    )
    return {row[0]: row[1:] for row in rows}


@pytest.fixture
def people(admin: Connection, tenant: Tenant) -> int:
    for zone, number in ZONES.items():
        admin.execute(_PEOPLE, {"tenant": tenant.id, "zone": zone, "people": number})
    return sum(ZONES.values())


def test_day_repeated_while_processes_are_killed_is_identical(
    cloud: Cloud, tenant: Tenant, admin: Connection, people: int
):
    add_tenant(cloud, tenant.slug, new_destinations=[NewDestination("app", "s3", "app", ["offers"])])
    kills, days = 0, []
    with disabled_schedule(cloud), ExitStack() as settings:
        settings.enter_context(function_settings(cloud, "offers", LEASE_SECONDS="2", HEARTBEAT_INTERVAL_SECONDS="0.5"))
        settings.enter_context(
            function_settings(cloud, "watchdog", RESEND_AFTER_SECONDS="1", OUTBOX_OVERDUE_SECONDS="1")
        )
        for step in islice(cycle(STEPS), DAYS):
            kills += replay(cloud, tenant, admin, step)
            days.append(offer_results(admin, tenant))

    assert kills >= DAYS
    assert [len(day) for day in days] == [people] * DAYS
    assert {status for status, _, _ in days[0].values()} == {"completed"}
    assert all(day == days[0] for day in days)
    assert admin.execute("SELECT count_duplicate_offers(%s)", [DAY - timedelta(days=1)]).fetchone() == (0,)
    offers = sum(len(json.loads(offers)) for _, offers, _ in days[0].values())
    assert admin.execute("SELECT count(*) FROM offers WHERE tenant_id = %s", [tenant.id]).fetchone() == (offers,)
    assert offers > 4 * people
    assert admin.execute("SELECT count(*) FROM dead_letter WHERE tenant_id = %s", [tenant.id]).fetchone() == (0,)
    events = wait_until(lambda: delivered_events(cloud, tenant))
    assert {event["data"]["timezone"] for event in events} == set(ZONES)
    assert sum(event["data"]["completed"] for event in events) == people


def replay(cloud: Cloud, tenant: Tenant, admin: Connection, step: str) -> int:
    """Repeat the day, and kill the workers at a step.

    Return the number of killed processes.
    """
    with psycopg.connect(cloud.database_url("postgres")) as blocker:
        with paused_workers(cloud):
            pin(cloud, tenant)
            blocker.execute(f"LOCK TABLE {step} IN ACCESS EXCLUSIVE MODE".encode())
        wait_until(lambda: admin.execute(WAITING_WORKERS).fetchall())
        with paused_workers(cloud):
            kills = kill(cloud, "offers")
            for queue in ("OffersQueueUrl", "OffersRetryQueueUrl"):
                cloud.client("sqs").purge_queue(QueueUrl=cloud.outputs[queue])

    unfinished_query = "SELECT count(*) FROM matchmaking_jobs WHERE tenant_id = %s AND status <> 'completed'"
    with watchdog_running(cloud):
        wait_until(lambda: admin.execute(unfinished_query, [tenant.id]).fetchone() == (0,), 300)
    return kills


def delivered_events(cloud: Cloud, tenant: Tenant) -> list[Any]:
    """Return the events at the destination, or an empty list if some are missing."""
    s3, bucket = cloud.client("s3"), cloud.outputs["UploadsBucketName"]
    objects = s3.list_objects_v2(Bucket=bucket, Prefix=f"exports/{tenant.slug}/app/offers/").get("Contents", [])
    events = [json.loads(s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()) for item in objects]
    return events if len(events) == SHARDS else []
