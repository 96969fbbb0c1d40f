"""docs/webhooks.md agrees with the code."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from counterfoil.delivery.retry import MAX_RETRY_AFTER, RedeliverPolicy
from counterfoil.documents.three_way_match.checks import find_variances
from counterfoil.egress import PORTS, TOTAL_SECONDS
from counterfoil.settings import Settings
from counterfoil.webhooks import destinations
from counterfoil.webhooks.payload import SCHEMA_VERSION, SIGNATURE_HEADER, OutputJob, export_key, render_body
from tools.demo.webhook_receiver import TOLERANCE_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
CLUSTER_FIELDS = [*find_variances([], []).record, "documents", "matches"]
JOB = OutputJob(UUID(int=1), 3, "cluster", UUID(int=2), SCHEMA_VERSION, datetime(2026, 1, 2, tzinfo=UTC), "{}")


def fields(heading: str) -> list[str]:
    """Return the names in the first column of the table after `heading`."""
    table = PAGE.split(heading)[1].split("\n\n|", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\|? `(\w+)` \|", table, re.MULTILINE)


def test_documented_fields_match_the_code():
    assert fields("## The call") == list(json.loads(render_body(JOB)))
    assert fields("`data` of a cluster has these fields") == CLUSTER_FIELDS
    assert f"| `schema_version` | {SCHEMA_VERSION}." in PAGE


def test_headers_are_documented():
    assert f"{SIGNATURE_HEADER}: t=" in PAGE
    assert "Idempotency-Key: " in PAGE


def test_documented_numbers_match_the_code():
    settings = Settings()
    delay_minutes = [int(seconds) // 60 for seconds in RedeliverPolicy().delays]
    for sentence in (
        f"more than **{TOLERANCE_SECONDS // 60} minutes** from your clock",
        f"no response within {TOTAL_SECONDS:g} seconds",
        f"retried after {delay_minutes[0]} minutes and after {delay_minutes[1]}",
        f"After {settings.breaker_failure_threshold} consecutive failures a destination is not called for "
        f"{settings.breaker_open_seconds:g} seconds",
        f"For {destinations.SECRET_OVERLAP.total_seconds() / 3600:g} hours calls have a signature for each of the two",
        f"at port {' or '.join(str(port) for port in sorted(PORTS))}",
    ):
        assert sentence in PAGE
    assert MAX_RETRY_AFTER.total_seconds() == 3600
    assert "a longer `Retry-After` (at most an hour)" in PAGE


def test_documented_export_keys_match_the_code():
    assert export_key("{tenant}", "{prefix}", JOB, "json").replace(str(JOB.subject_id), "{id}") in PAGE
    assert export_key("{tenant}", "{prefix}", JOB, "csv").replace(str(JOB.subject_id), "{id}") in PAGE
