"""The tally of a batch: how its records ended, added up for the metrics."""

from collections import Counter

from counterfoil import metrics
from counterfoil.delivery.received import Received
from counterfoil.delivery.settlement import Verdict
from counterfoil.delivery.store import WORKER_LOST, Claim
from counterfoil.metrics import Metric

COUNTED = {
    "succeeded": Metric.SUCCEEDED,
    "skipped": Metric.SKIPPED,
    "failed": Metric.FAILED,
    "retry": Metric.RETRIES,
    "deferred": Metric.DEFERRED,
    "parked": Metric.DEFERRED,
    "stale": Metric.STALE,
    "superseded": Metric.SUPERSEDED,
    "unsettled": Metric.UNSETTLED,
    "unprotected": Metric.UNPROTECTED,
}
"""What is counted as what. The other outcomes are answers to copies of messages, which say nothing of the work."""


class Tally:
    """Counts of one batch."""

    def __init__(self) -> None:
        self._outcomes: Counter[Metric] = Counter()
        self._seconds: list[float] = []
        self._attempts: list[float] = []
        self._end_to_end: list[float] = []
        self._errors: Counter[str] = Counter()

    def add(self, record: Received, verdict: Verdict, claim: Claim | None) -> None:
        """Count one record at its end. `claim` is the try that it was, where it came to that."""
        if verdict.outcome in COUNTED:
            self._outcomes[COUNTED[verdict.outcome]] += 1
        if verdict.error_type is not None:
            self._errors[verdict.error_type] += 1
        if claim is not None and "claimed" in record.stages:
            self._seconds.append((record.stages["ended"] - record.stages["claimed"]).total_seconds())
            if verdict.outcome == "succeeded":
                self._attempts.append(claim.attempts)
                if claim.created_at is not None and claim.message.revision == 1:
                    # Another machine's clock, which may be ahead, says when it came in.
                    self._end_to_end.append(max(0.0, (record.stages["ended"] - claim.created_at).total_seconds()))

    def lost(self, tries: int) -> None:
        """Count tries that never settled, found by the claims that follow them."""
        self._errors[WORKER_LOST] += tries

    def report(self, worker: str) -> None:
        """Hand the counts to the metrics."""
        values: dict[Metric, float | list[float]] = dict(self._outcomes)
        values |= {
            Metric.JOB_SECONDS: self._seconds,
            Metric.ATTEMPTS_BEFORE_SUCCESS: self._attempts,
            Metric.END_TO_END_SECONDS: self._end_to_end,
        }
        if self._outcomes:
            metrics.record(values, worker=worker)
        for error_type, count in (+self._errors).items():
            metrics.record({Metric.ERRORS: count}, worker=worker, error_type=error_type)
