"""Measure search time relative to `SELECT 1`, recall, and matching throughput."""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from statistics import median, quantiles
from tempfile import TemporaryFile
from time import perf_counter
from typing import TypeVar
from uuid import UUID

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import BatchWorker
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.work import Message
from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import sql
from counterfoil.documents.matching.keys import PARENT_KINDS, SEARCHED_KINDS, Key
from counterfoil.documents.matching.normalize import document
from functions.matching.handler import raise_gc_threshold
from functions.matching.work import match, match_together
from infra.worker_table import WORKERS
from tests.benchmarks.scale.archive import ArchiveDocument
from tests.benchmarks.scale.database import tenant_id
from tests.delivery.harness import Context, FakeSqs, event, make_consumer, record

_ROW = next(row for row in WORKERS if row.name == "matching")
_WORKER = {name: getattr(_ROW, name) for name in ("name", "timeout", "permits", "start_margin")}
_WARM_UP = 60
"""Maximum number of warm-up documents per process, which are matched but not measured."""
T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """Search durations in milliseconds, recall, and mean number of candidates."""

    select_1_p50: float
    p50: float
    p95: float
    recall: float
    candidates: float
    """Mean number of candidates per search."""

    @property
    def ratio(self) -> float:
        """Ratio of the p95 to the median duration of `SELECT 1` on the same connection."""
        return self.p95 / self.select_1_p50


def search(url: str, children: Sequence[ArchiveDocument]) -> Search:
    """Search for each child's partners, in one round trip per child.

    All belong to one tenant.
    """
    took, found, candidates = [], 0, 0
    tenant = tenant_id(children[0].tenant)
    with closing(Database(url, max_connections=1)) as database, database.tenant(tenant, by_index=True) as seen:
        alone = [_time_call(lambda: seen.execute("SELECT 1").fetchone())[0] for _ in range(1000)]
        for child in children:
            keys = _search_keys(child)
            seconds, holders = _time_call(partial(_holders, seen, child, keys))
            ids = {id_ for held in holders.values() for id_ in held}
            took.append(seconds)
            found += child.order in ids
            candidates += len(ids)
    count = len(children)
    return Search(median(alone) * 1e3, median(took) * 1e3, _p95(took) * 1e3, found / count, candidates / count)


def _holders(connection: Connection, child: ArchiveDocument, keys: Collection[Key]) -> Mapping[Key, list[UUID]]:
    return sql.documents_with_keys(
        connection, sql.KeyLookup(tenant_id(child.tenant), dict.fromkeys(keys, sql.MAX_DOCUMENTS_PER_KEY + 1))
    )


def _search_keys(child: ArchiveDocument) -> frozenset[Key]:
    read = document(child.id, child.received_at, child.kind, child.data)
    return keyed.referenced_numbers(read) | keyed.transaction_keys(
        read, tuple(kind for kind in PARENT_KINDS[child.kind] if kind in SEARCHED_KINDS)
    )


def _time_call(call: Callable[[], T]) -> tuple[float, T]:
    began = perf_counter()
    result = call()
    return perf_counter() - began, result


@dataclass(frozen=True)
class Speed:
    """Throughput of matching through the delivery engine, from claim to settlement."""

    documents: int
    seconds: float
    p95_ms: float
    """p95 for a single document, from claim to settlement, in milliseconds."""
    invocation_p95_ms: float
    """p95 of the whole invocation for a single document, including logs and metrics, in milliseconds."""

    @property
    def per_second(self) -> float:
        """Matched documents per second."""
        return self.documents / self.seconds


@dataclass(frozen=True)
class _MatchResult:
    """Results of one process after warm-up.

    Times are in seconds, on a clock that all processes share.
    """

    documents: int
    began: float
    ended: float
    took: Sequence[float]
    """Seconds per batch, measured by the caller."""
    settled: Sequence[float]
    """Seconds per document, from before its claim to after its settlement."""


def throughput(url: str, ids: Sequence[UUID], processes: int) -> Speed:
    """Match pending documents in batches of ten, and the last fifth one by one.

    The first batches of each process are excluded, because the process connects and PostgreSQL plans its statements.
    """
    cut = len(ids) * 4 // 5
    parts = [ids[number:cut:processes] for number in range(processes)]
    with ProcessPoolExecutor(processes) as pool:
        matched = list(pool.map(_match, [url] * processes, parts, [_ROW.batch_size] * processes))
        [alone] = pool.map(_match, [url], [ids[cut:]], [1])
    seconds = max(one.ended for one in matched) - min(one.began for one in matched)
    return Speed(sum(one.documents for one in matched), seconds, _p95(alone.settled) * 1e3, _p95(alone.took) * 1e3)


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


def _match(url: str, ids: Sequence[UUID], size: int) -> _MatchResult:
    aws.client = lambda name: FakeSqs()  # type: ignore[assignment]
    raise_gc_threshold()
    with TemporaryFile("w+") as log, closing(Database(url, max_connections=_ROW.permits + 2)) as database:
        os.dup2(log.fileno(), 1)  # capture this process's log, which contains the times of each stage
        consumer = make_consumer(
            database, BatchWorker(match, match_together), lambda: datetime.now(UTC), worker=_WORKER
        )
        first = min(_WARM_UP, len(ids) // 2)
        for batch in _batches(ids[:first], size):
            _handle(consumer, batch)
        began = perf_counter()
        took = [_handle(consumer, batch) for batch in _batches(ids[first:], size)]
        ended = perf_counter()
        log.seek(0)
        settled = list(map(_seconds, filter(None, (json.loads(line).get("stages") for line in log))))
        if len(settled) != len(ids):
            message = f"The log has {len(settled)} documents, expected {len(ids)}"
            raise RuntimeError(message)
        return _MatchResult(len(ids) - first, began, ended, took, settled[first:])


def _seconds(stages: Mapping[str, str]) -> float:
    return (datetime.fromisoformat(stages["ended"]) - datetime.fromisoformat(stages["permitted"])).total_seconds()


def _handle(consumer: Consumer, batch: Sequence[UUID]) -> float:
    messages = [record(Message(work_id=id_, revision=1, send_number=0)) for id_ in batch]
    seconds, response = _time_call(partial(consumer.handle, event(*messages), Context()))
    if response["batchItemFailures"]:
        raise RuntimeError(f"The documents were not matched: {response}")
    return seconds


def _batches(ids: Sequence[UUID], size: int) -> Iterator[Sequence[UUID]]:
    for first in range(0, len(ids), size):
        yield ids[first : first + size]
