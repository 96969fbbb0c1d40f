"""Bulk operations select each matching dead letter once, at request time."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.dead_letters import bulk, groups
from tests.dead_letters.bulk_harness import LATER, Yard
from tests.dead_letters.dead_letter_factory import NOON


def test_operation_selects_only_matching_dead_letters(yard: Yard, make_tenant: Callable[..., UUID]):
    alike = yard.fail(2, error="Step a")
    other = yard.fail(2, error="Other words")
    yard.die(error="Step a", worker="tasks", tenant=make_tenant("zenith"))
    with yard.database.tenant(yard.tenant_id) as connection:
        fingerprints = {
            group.message: group.fingerprint
            for group in groups.page(connection, yard.tenant_id, ["pending"], LATER, limit=9)
        }
    operations = {
        "group": yard.request(fingerprint=fingerprints["Step a"]),
        "type": yard.request(task_type="echo"),
        "no type": yard.request(task_type="mail"),
        "time": yard.request(from_date=NOON + timedelta(minutes=1)),
        "before": yard.request(to_date=NOON + timedelta(minutes=1)),
        "text": yard.request(text="other WORDS"),
        "named": yard.request(job_ids=[alike[0], alike[0], other[1]]),
    }
    selected = {name: set(yard.results(operation)) for name, operation in operations.items()}
    assert selected == {
        "group": set(alike),
        "type": {*alike, *other},
        "no type": set(),
        "time": {alike[1], other[1]},
        "before": {alike[0], other[0]},
        "text": set(other),
        "named": {alike[0], other[1]},
    }


@pytest.mark.parametrize("selection", [{}, {"text": "failing"}])
def test_multi_step_selection_contains_each_dead_letter_once(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, selection: dict[str, Any]
):
    dead_letters = yard.fail(7, error="It is failing")
    monkeypatch.setattr(bulk, "BATCH_SIZE", 3)
    monkeypatch.setattr(bulk, "SEARCH_BATCH_SIZE", 3)
    operation = yard.request(**selection)
    assert (operation.state, operation.selected) == ("selecting", 3)
    yard.run(operation, at_once=2)
    assert yard.results(operation) == dict.fromkeys(dead_letters, "succeeded")
    assert [item.number for item in yard.items(operation)] == list(range(1, 8))


def test_empty_operation_ends_immediately(yard: Yard):
    operation = yard.request()
    yard.run(operation)
    assert (yard.shown(operation).state, yard.shown(operation).selected) == ("done", 0)


def test_later_dead_letters_are_not_selected(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 2)
    dead_letters = yard.fail(3)
    operation = yard.request()
    yard.fail(2, first=61)
    yard.now += timedelta(hours=1)
    yard.run(operation)
    assert yard.results(operation) == dict.fromkeys(dead_letters, "succeeded")
    assert Counter(yard.statuses().values()) == {"retried": 3, "pending": 2}


def test_foreign_dead_letters_are_reported_as_missing(yard: Yard, make_tenant: Callable[..., UUID]):
    foreign = yard.die(tenant=make_tenant("zenith"))
    operation = yard.request(job_ids=[foreign, uuid4()])
    yard.run(operation)
    assert {item.reason for item in yard.items(operation)} == {"There is no such dead letter."}
    assert yard.statuses() == {foreign: "pending"}
