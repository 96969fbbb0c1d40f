"""A run of the sample in a local cloud: upload, watch, collect the results."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cli.failures import CommandError
from cli.local import emulator
from cli.local.cloud import Cloud
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import POLL_SECONDS, of_tenant, upload
from counterfoil.documents.upload_list import STAGES, Stage, Upload
from tools.demo.sample_check import Found
from tools.sample_generator import Sample, SampleFile

_MAX_ERRORS = 3


@dataclass
class Run:
    """A sample in a cloud. Each run has its own tenants."""

    cloud: Cloud
    sample: Sample
    folder: Path
    """Folder for the sample's files."""
    tenants: Mapping[str, Tenant]
    """Tenants by their names in the sample."""
    uploaded: dict[str, SampleFile] = field(default_factory=dict)
    """Uploaded files by key."""

    @classmethod
    def prepared(cls, cloud: Cloud, sample: Sample, folder: Path) -> "Run":
        """Add tenants for the run, and write the sample's files."""
        suffix = secrets.token_hex(3)
        tenants = {slug: add_tenant(cloud, f"{slug[:50]}-{suffix}", slug.capitalize())[0] for slug in sample.tenants}
        sample.write(folder)
        return cls(cloud, sample, folder, tenants)

    def watch(self, seconds: float, show: Callable[[list[int]], None] = lambda _: None) -> Found:
        """Upload the sample in its order, and wait until every document is in a final state.

        `show` is called with the number of files uploaded, acquired, ingested and matched, or ended earlier.

        Raises:
            CommandError: some documents are unfinished after `seconds`.
        """
        deadline, looked = time.monotonic() + seconds, 0.0
        uploads = self._upload()
        uploading = True
        while True:
            while uploading and time.monotonic() - looked < POLL_SECONDS:
                uploading = next(uploads, None) is not None
            looked = time.monotonic()
            found = self.found()
            show([len(self.uploaded), *(_passed(found.values(), stage) for stage in STAGES)])
            if not uploading and len(found) == len(self.uploaded) and all(one.state.is_final for one in found.values()):
                return found
            if time.monotonic() > deadline:
                raise CommandError(self._unfinished(found, seconds))
            if not uploading:
                time.sleep(POLL_SECONDS)

    def _upload(self) -> Iterator[SampleFile]:
        for file in self.sample.files:
            for one in upload(self.cloud, self.tenants[file.tenant], [self.folder / file.tenant / file.name]):
                self.uploaded[one.key] = file
            yield file

    def found(self) -> dict[tuple[str, str], Upload]:
        """Return the uploads so far, by the sample's tenant and the file's name."""
        return {
            (slug, self.uploaded[one.key].name): one
            for slug, tenant in self.tenants.items()
            for one in of_tenant(self.cloud, tenant)
            if one.key in self.uploaded
        }

    def _unfinished(self, found: Found, seconds: float) -> str:
        open_ = [one for one in found.values() if not one.state.is_final]
        places = Counter(f"{one.state} in {one.stage}" for one in open_)
        places["not acquired"] = len(self.uploaded) - len(found)
        places["not uploaded"] = len(self.sample.files) - len(self.uploaded)
        errors = sorted({one.note.rstrip(".") for one in open_ if one.note})[:_MAX_ERRORS]
        return (
            f"After {seconds:.0f} s {places.total()} of {len(self.sample.files)} documents are unfinished: "
            + ", ".join(f"{count} {place}" for place, count in places.items() if count)
            + (f". Last errors: {' | '.join(errors)}" if errors else "")
            + f". The functions' log is {emulator.log(self.cloud.place)}. Try a longer --timeout."
        )


def _passed(found: Collection[Upload], stage: Stage) -> int:
    """Return the number of uploads that passed a stage or ended before it."""
    place = STAGES.index(stage)
    return sum(one.state.is_final or STAGES.index(one.stage) > place for one in found)
