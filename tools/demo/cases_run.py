"""The sample's cases on their way through a local cloud: uploaded and mailed, watched, and held against their truth."""

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

from cli.client import PATIENCE, Api
from cli.commands.clusters import Cluster, documents_of, read
from cli.commands.documents import name_of
from cli.failures import CommandError
from cli.local.cloud import Cloud
from cli.local.sign_in import SignedIn
from cli.local.tenants import Tenant, add_tenant, remove_destination
from cli.local.uploads import POLL_SECONDS, of_tenant, upload
from counterfoil.documents.upload_list import State, Upload
from counterfoil.webhooks.destinations import NewDestination
from tools.demo.receiver import Handler, Inbox, Receiver
from tools.demo.verdict import Deviation
from tools.sample_generator.cases import Case, Cases, generate_cases

Name = tuple[str, str]
"""Type and number of a document."""
_RECEIVER = "receiver"
"""Name of the webhook of the cases' tenant."""
_EITHER = "one of the two"
"""Which of two copies is called the duplicate is decided by their arrival, which is nobody's to say here."""


class _Quiet(Handler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its parent's name
        """Say nothing: the demo says what came."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """The sample receiver of webhooks at a port of this machine, until the block ends."""
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
class CasesRun:
    """The cases in one cloud, for a tenant of its own whose results go to a receiver."""

    cloud: Cloud
    cases: Cases
    tenant: Tenant
    receiver: Receiver
    keys: set[str]

    @classmethod
    def begun(cls, cloud: Cloud, seed: int, slug: str, folder: Path, receiver: Receiver) -> "CasesRun":
        """Add the tenant with its address and its webhook, write the files, upload them and store the mails.

        Call `end` when the receiver stops.
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
            keys += [one.key for one in upload(cloud, owner, paths)]
        return cls(cloud, cases, tenant, receiver, set(keys))

    def end(self) -> None:
        """Remove the webhook, so that no delivery waits for a receiver that has stopped."""
        remove_destination(self.cloud, self.tenant, _RECEIVER)

    def watch(self, seconds: float) -> "Found":
        """Wait until every document, every cluster and every delivery of a cluster is done.

        Raises:
            CommandError: something is not, after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            found = [one for one in of_tenant(self.cloud, self.tenant) if one.key in self.keys]
            open_ = sum(not one.state.is_final for one in found)
            waiting = self._waiting() if not open_ and {one.key for one in found} == self.keys else 1
            if not open_ and not waiting:
                return self._found(found)
            if time.monotonic() > deadline:
                raise CommandError(
                    f"After {seconds:.0f} s {open_} of the cases' documents and {waiting} of their clusters are not "
                    "done; --timeout gives them longer."
                )
            time.sleep(POLL_SECONDS)

    def _waiting(self) -> int:
        """Clusters that are to be computed or told of."""
        with self.cloud.database.tenant(self.tenant.id) as connection:
            rows = connection.execute(
                """
                SELECT (SELECT count(*) FROM cluster_diagnostics WHERE status IN ('pending', 'in-progress'))
                     + (SELECT count(*) FROM output_job
                        WHERE subject = 'cluster' AND status IN ('pending', 'in-progress'))
                """
            ).fetchall()
        return int(rows[0][0])

    def _found(self, found: Sequence[Upload]) -> "Found":
        ids = {one.cluster_id for one in found if one.state is State.SUCCEEDED and one.cluster_id is not None}
        auth = SignedIn(self.cloud, "demo")
        with httpx.Client(base_url=self.cloud.api_url, auth=auth, timeout=PATIENCE) as client:
            shown = {id_: read(Api(client), str(id_)) for id_ in sorted(ids)}
        told = {
            body["subject_id"]: body["data"] for body in self.receiver.inbox.results() if body["event"] == "cluster"
        }
        states = sum(body["event"] == "document" for body in self.receiver.inbox.results())
        return Found(found, shown, told, states)


@dataclass(frozen=True)
class Found:
    """What became of the cases."""

    documents: Sequence[Upload]
    clusters: Mapping[UUID, Cluster]
    told: Mapping[str, Mapping[str, Any] | None]
    """What the receiver was told last of each cluster."""
    states: int
    """Documents whose state it has been told so far."""

    def cluster_of(self, case: Case) -> Cluster | None:
        """The cluster that the case's first document is in."""
        wanted = case.papers[0].name
        return next((one for one in self.clusters.values() if wanted in _names(one)), None)

    @property
    def parts(self) -> int:
        """Documents that were cut out of the file of many and succeeded."""
        return sum(one.state is State.SUCCEEDED and " Rechnungen " in one.file for one in self.documents)


def _names(cluster: Cluster) -> Counter[Name]:
    return Counter((one["type"] or "other", one["number"] or "") for one in documents_of(cluster))


def open_codes(cluster: Cluster) -> set[Name]:
    """Number and code of what somebody has to look at."""
    variances = cluster["comparison"]["variances"] if cluster["comparison"] is not None else ()
    return {
        _placed(one["number"], one["code"])
        for one in variances
        if not one["within_tolerance"] and one["settled_by"] is None
    }


def _placed(number: str, code: str) -> Name:
    return (_EITHER if code == "duplicate_invoice" else number, code)


def deviations(cases: Cases, found: Found) -> list[Deviation]:
    """Everything in which what was found is not what the cases' truth says; empty where nothing is."""
    told = [one for case in cases.cases for one in _of_case(case, found)]
    failed = [one for one in found.documents if one.state is State.FAILED]
    told += [Deviation("cases", [one.file], "no failure", f"{one.state}: {one.note}") for one in failed]
    for id_, cluster in found.clusters.items():
        outcome = None if cluster["comparison"] is None else cluster["comparison"]["outcome"]
        heard = (found.told.get(str(id_)) or {}).get("outcome")
        if heard != outcome:
            files = [one["file_name"] for one in documents_of(cluster)]
            told.append(Deviation("cases", files, f"the result for the receiver: {outcome}", f"it received: {heard}"))
    return told


def _of_case(case: Case, found: Found) -> Iterator[Deviation]:
    files = [f"{paper.document.kind} {paper.document.number}" for paper in case.papers]
    cluster = found.cluster_of(case)
    if cluster is None:
        yield Deviation("cases", files, f"a cluster: {case.title}", "none")
        return
    names = Counter(paper.name for paper in case.papers)
    if _names(cluster) != names:
        yield Deviation(
            "cases", files, "one cluster of these", ", ".join(name_of(one) for one in documents_of(cluster))
        )
    expected = {_placed(paper.document.number, code) for paper in case.papers for code in paper.wrong}
    if open_codes(cluster) != expected:
        yield Deviation("cases", files, _words(expected), _words(open_codes(cluster)))


def _words(codes: set[Name]) -> str:
    return ", ".join(f"{code} of {number}" for number, code in sorted(codes)) or "nothing wrong"
