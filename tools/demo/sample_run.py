"""A sample on its way through a local cloud: uploaded, watched, and asked for what became of it."""

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
from tools.demo.verdict import Found
from tools.sample_generator import Sample, SampleFile

_MAX_ERRORS = 3


@dataclass
class Run:
    """One sample in one cloud. Each run has tenants of its own, so that runs never meet."""

    cloud: Cloud
    sample: Sample
    folder: Path
    """Where the sample's files are written."""
    tenants: Mapping[str, Tenant]
    """By the sample's name of them."""
    uploaded: dict[str, SampleFile] = field(default_factory=dict)
    """By key."""

    @classmethod
    def prepared(cls, cloud: Cloud, sample: Sample, folder: Path) -> "Run":
        """Add tenants for the run, and write the sample's files."""
        suffix = secrets.token_hex(3)
        tenants = {slug: add_tenant(cloud, f"{slug[:50]}-{suffix}", slug.capitalize())[0] for slug in sample.tenants}
        sample.write(folder)
        return cls(cloud, sample, folder, tenants)

    def watch(self, seconds: float, show: Callable[[list[int]], None] = lambda _: None) -> Found:
        """Upload the sample in its order, and watch it until everything is final.

        `show` is told again and again how many files are uploaded, acquired, ingested and matched, or ended before.

        Raises:
            CommandError: something is not final after `seconds`; the sentence says where it is.
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
        """Return the uploads so far, by the sample's name of the tenant and the name of the file."""
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
            f"After {seconds:.0f} s {places.total()} of {len(self.sample.files)} documents are not done: "
            + ", ".join(f"{count} {place}" for place, count in places.items() if count)
            + (f". Their last attempts ended with: {' | '.join(errors)}" if errors else "")
            + f". What the functions said is in {emulator.log(self.cloud.place)}; --timeout gives them longer."
        )


def _passed(found: Collection[Upload], stage: Stage) -> int:
    """How many have left a stage behind, or ended before it."""
    place = STAGES.index(stage)
    return sum(one.state.is_final or STAGES.index(one.stage) > place for one in found)
