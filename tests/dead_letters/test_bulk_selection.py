"""Bulk operations select each dead letter matching at request time exactly once."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.dead_letters import bulk, groups
from tests.dead_letters.bulk_harness import LATER, BulkHarness
from tests.dead_letters.dead_letter_factory import NOON


def test_operation_selects_only_matching_dead_letters(harness: BulkHarness, make_tenant: Callable[..., UUID]):
    matching = harness.fail(2, error="Step a")
    other = harness.fail(2, error="Other words")
    harness.make_dead_letter(error="Step a", worker="tasks", tenant=make_tenant("zenith"))
    with harness.database.tenant(harness.tenant_id) as connection:
        fingerprints = {
            group.message: group.fingerprint
            for group in groups.page(connection, harness.tenant_id, ["pending"], LATER, limit=9)
        }
    operations = {
        "group": harness.request(fingerprint=fingerprints["Step a"]),
        "type": harness.request(task_type="echo"),
        "no type": harness.request(task_type="mail"),
        "time": harness.request(from_date=NOON + timedelta(minutes=1)),
        "before": harness.request(to_date=NOON + timedelta(minutes=1)),
        "search": harness.request(search="other WORDS"),
        "named": harness.request(job_ids=[matching[0], matching[0], other[1]]),
    }
    selected = {name: set(harness.results(operation)) for name, operation in operations.items()}
    assert selected == {
        "group": set(matching),
        "type": {*matching, *other},
        "no type": set(),
        "time": {matching[1], other[1]},
        "before": {matching[0], other[0]},
        "search": set(other),
        "named": {matching[0], other[1]},
    }


@pytest.mark.parametrize("selection", [{}, {"search": "failing"}])
def test_multi_step_selection_contains_each_dead_letter_once(
    harness: BulkHarness, monkeypatch: pytest.MonkeyPatch, selection: dict[str, Any]
):
    dead_letters = harness.fail(7, error="It is failing")
    monkeypatch.setattr(bulk, "BATCH_SIZE", 3)
    monkeypatch.setattr(bulk, "SEARCH_BATCH_SIZE", 3)
    operation = harness.request(**selection)
    assert (operation.state, operation.selected) == ("selecting", 3)
    harness.run(operation, batch_size=2)
    assert harness.results(operation) == dict.fromkeys(dead_letters, "succeeded")
    assert [item.number for item in harness.items(operation)] == list(range(1, 8))


def test_operation_without_dead_letters_ends_immediately(harness: BulkHarness):
    operation = harness.request()
    harness.run(operation)
    assert (harness.load(operation).state, harness.load(operation).selected) == ("done", 0)


def test_later_dead_letters_are_not_selected(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 2)
    dead_letters = harness.fail(3)
    operation = harness.request()
    harness.fail(2, first=61)
    harness.now += timedelta(hours=1)
    harness.run(operation)
    assert harness.results(operation) == dict.fromkeys(dead_letters, "succeeded")
    assert Counter(harness.statuses().values()) == {"retried": 3, "pending": 2}


def test_other_tenants_dead_letters_are_reported_as_missing(harness: BulkHarness, make_tenant: Callable[..., UUID]):
    foreign_job_id = harness.make_dead_letter(tenant=make_tenant("zenith"))
    operation = harness.request(job_ids=[foreign_job_id, uuid4()])
    harness.run(operation)
    assert {item.reason for item in harness.items(operation)} == {"There is no such dead letter."}
    assert harness.statuses() == {foreign_job_id: "pending"}
