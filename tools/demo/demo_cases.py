"""Runs the sample's cases in a local cloud and compares the results.

Cases are uploaded or sent by mail.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import httpx

from cli.client import TIMEOUT_SECONDS, Api
from cli.commands.clusters import Cluster, documents_of, read
from cli.commands.documents import name_of
from cli.failures import CommandError
from cli.local.cloud import Cloud
from cli.local.sign_in import LocalSignIn
from cli.local.tenants import Tenant, add_tenant, remove_destination
from cli.local.uploads import POLL_SECONDS, list_uploads, upload
from counterfoil.documents.upload_list import State, Upload
from counterfoil.webhooks.destinations import NewDestination
from tools.demo.sample_check import Mismatch
from tools.demo.webhook_receiver import Handler, Inbox, Receiver
from tools.sample_generator.cases import Case, Cases, generate_cases

Name = tuple[str, str]
"""A document's type and number."""
_RECEIVER = "receiver"
"""Name of the tenant's webhook destination."""
_EITHER = "one of the two"
"""Replaces the number of a duplicate, because the order of arrival decides which file counts as the duplicate."""


class _Quiet(Handler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name in the base class
        """Log nothing, because the demo prints the results."""


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    """Run the sample webhook receiver on a local port."""
    inbox = Inbox(":memory:")
    receiver = Receiver(("127.0.0.1", 0), [], inbox)
    receiver.RequestHandlerClass = _Quiet
    thread = Thread(target=receiver.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()
        inbox.close()


@dataclass
class DemoCases:
    """The cases in a cloud, with their own tenant and webhook receiver."""

    cloud: Cloud
    cases: Cases
    tenant: Tenant
    receiver: Receiver
    keys: set[str]

    @classmethod
    def start(cls, cloud: Cloud, seed: int, slug: str, folder: Path, receiver: Receiver) -> "DemoCases":
        """Add a tenant for the cases, then upload their files and store their emails.

        The tenant has a mail address and a webhook. Call `end` before the receiver stops.
        """
        cases = generate_cases(seed, f"rechnung@{slug}.example")
        url = f"http://127.0.0.1:{receiver.server_port}/results"
        webhook = NewDestination(_RECEIVER, "webhook", url)
        tenant, secrets = add_tenant(cloud, slug, "Cases", addresses=[cases.address], new_destinations=[webhook])
        receiver.secrets = [secret for secret in secrets if secret is not None]
        folder.mkdir(parents=True, exist_ok=True)
        keys = []
        for owner, files in ((tenant, cases.files()), (None, cases.mails())):
            paths = [folder / name for name, _ in files]
            for path, (_, content) in zip(paths, files, strict=True):
                path.write_bytes(content)
            keys += [uploaded.key for uploaded in upload(cloud, owner, paths)]
        return cls(cloud, cases, tenant, receiver, set(keys))

    def end(self) -> None:
        """Remove the webhook, so that no delivery waits for a stopped receiver."""
        remove_destination(self.cloud, self.tenant, _RECEIVER)

    def watch(self, seconds: float) -> "CaseResults":
        """Wait until all documents, clusters and deliveries are finished.

        Raises:
            CommandError: some are unfinished after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            uploads = [item for item in list_uploads(self.cloud, self.tenant) if item.key in self.keys]
            unfinished = sum(not item.state.is_final for item in uploads)
            pending = self._pending_clusters() if not unfinished and {item.key for item in uploads} == self.keys else 1
            if not unfinished and not pending:
                return self._collect_results(uploads)
            if time.monotonic() > deadline:
                raise CommandError(
                    f"After {seconds:.0f} s, {unfinished} of the cases' documents and {pending} diagnostics or "
                    "deliveries of their clusters are unfinished. Try a longer --timeout."
                )
            time.sleep(POLL_SECONDS)

    def _pending_clusters(self) -> int:
        """Return the number of pending or running diagnostics and deliveries of clusters."""
        with self.cloud.database.tenant(self.tenant.id) as connection:
            rows = connection.execute(
                """
                SELECT (SELECT count(*) FROM cluster_diagnostics WHERE status IN ('pending', 'in-progress'))
                     + (SELECT count(*) FROM output_job
                        WHERE subject = 'cluster' AND status IN ('pending', 'in-progress'))
                """
            ).fetchall()
        return int(rows[0][0])

    def _collect_results(self, uploads: Sequence[Upload]) -> "CaseResults":
        ids = {item.cluster_id for item in uploads if item.state is State.SUCCEEDED and item.cluster_id is not None}
        auth = LocalSignIn(self.cloud, "demo")
        with httpx.Client(base_url=self.cloud.api_url, auth=auth, timeout=TIMEOUT_SECONDS) as client:
            clusters = {id_: read(Api(client), str(id_)) for id_ in sorted(ids)}
        received = {
            body["subject_id"]: body["data"] for body in self.receiver.inbox.results() if body["event"] == "cluster"
        }
        states = sum(body["event"] == "document" for body in self.receiver.inbox.results())
        return CaseResults(uploads, clusters, received, states)


@dataclass(frozen=True)
class CaseResults:
    """The cases' results."""

    documents: Sequence[Upload]
    clusters: Mapping[UUID, Cluster]
    received: Mapping[str, Mapping[str, Any] | None]
    """Latest result delivered to the receiver for each cluster, by cluster id."""
    document_states: int
    """Number of documents whose status was delivered to the receiver."""

    def cluster_of(self, case: Case) -> Cluster | None:
        """Return the cluster of the case's first document."""
        first = case.documents[0].name
        return next((cluster for cluster in self.clusters.values() if first in _names(cluster)), None)

    @property
    def parts(self) -> int:
        """Number of documents that were split off the large file and succeeded."""
        return sum(document.state is State.SUCCEEDED and " Rechnungen " in document.file for document in self.documents)


def _names(cluster: Cluster) -> Counter[Name]:
    return Counter((document["type"] or "other", document["number"] or "") for document in documents_of(cluster))


def open_codes(cluster: Cluster) -> set[Name]:
    """Return document number and code of each open variance."""
    variances = cluster["comparison"]["variances"] if cluster["comparison"] is not None else ()
    return {
        _number_and_code(variance["number"], variance["code"])
        for variance in variances
        if not variance["within_tolerance"] and variance["decided_by"] is None
    }


def _number_and_code(number: str, code: str) -> Name:
    return (_EITHER if code == "duplicate_invoice" else number, code)


def mismatches(cases: Cases, results: CaseResults) -> list[Mismatch]:
    """Return all differences between the actual and the expected results."""
    differences = [mismatch for case in cases.cases for mismatch in _case_mismatches(case, results)]
    failed = [document for document in results.documents if document.state is State.FAILED]
    differences += [
        Mismatch("cases", [document.file], "no failure", f"{document.state}: {document.note}") for document in failed
    ]
    for id_, cluster in results.clusters.items():
        outcome = None if cluster["comparison"] is None else cluster["comparison"]["outcome"]
        received = (results.received.get(str(id_)) or {}).get("outcome")
        if received != outcome:
            files = [document["file_name"] for document in documents_of(cluster)]
            differences.append(Mismatch("cases", files, f"webhook result: {outcome}", f"webhook result: {received}"))
    return differences


def _case_mismatches(case: Case, results: CaseResults) -> Iterator[Mismatch]:
    files = [f"{item.document.kind} {item.document.number}" for item in case.documents]
    cluster = results.cluster_of(case)
    if cluster is None:
        yield Mismatch("cases", files, f"a cluster: {case.title}", "none")
        return
    names = Counter(item.name for item in case.documents)
    if _names(cluster) != names:
        yield Mismatch(
            "cases",
            files,
            "one cluster with exactly these documents",
            ", ".join(name_of(document) for document in documents_of(cluster)),
        )
    expected = {_number_and_code(item.document.number, code) for item in case.documents for code in item.codes}
    if open_codes(cluster) != expected:
        yield Mismatch("cases", files, _format_codes(expected), _format_codes(open_codes(cluster)))


def _format_codes(codes: set[Name]) -> str:
    return ", ".join(f"{code} of {number}" for number, code in sorted(codes)) or "no variances"
