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
from cli.local.uploads import POLL_SECONDS, list_uploads, upload
from counterfoil.documents.upload_list import STAGES, Stage, Upload
from tools.demo.sample_check import UploadsByFile
from tools.sample_generator import Sample, SampleFile

_MAX_ERRORS = 3


@dataclass
class Run:
    """A run of the sample in a cloud, with its own tenants."""

    cloud: Cloud
    sample: Sample
    folder: Path
    """Folder for the sample's files."""
    tenants: Mapping[str, Tenant]
    """Tenants by their names in the sample."""
    uploaded: dict[str, SampleFile] = field(default_factory=dict)
    """Uploaded files by key."""

    @classmethod
    def prepare(cls, cloud: Cloud, sample: Sample, folder: Path) -> "Run":
        """Add tenants for the run, and write the sample's files."""
        suffix = secrets.token_hex(3)
        tenants = {slug: add_tenant(cloud, f"{slug[:50]}-{suffix}", slug.capitalize())[0] for slug in sample.tenants}
        sample.write(folder)
        return cls(cloud, sample, folder, tenants)

    def watch(self, seconds: float, show: Callable[[list[int]], None] = lambda _: None) -> UploadsByFile:
        """Upload the sample's files in order, and wait for each document's final state.

        Calls `show` with the numbers of uploaded, acquired, ingested and matched files. A file in a final state
        counts for all stages.

        Raises:
            CommandError: some documents are unfinished after `seconds`.
        """
        deadline, polled_at = time.monotonic() + seconds, 0.0
        uploads = self._upload()
        is_uploading = True
        while True:
            while is_uploading and time.monotonic() - polled_at < POLL_SECONDS:
                is_uploading = next(uploads, None) is not None
            polled_at = time.monotonic()
            uploads_by_file = self.current_uploads()
            show([len(self.uploaded), *(_passed(uploads_by_file.values(), stage) for stage in STAGES)])
            if (
                not is_uploading
                and len(uploads_by_file) == len(self.uploaded)
                and all(item.state.is_final for item in uploads_by_file.values())
            ):
                return uploads_by_file
            if time.monotonic() > deadline:
                raise CommandError(self._unfinished(uploads_by_file, seconds))
            if not is_uploading:
                time.sleep(POLL_SECONDS)

    def _upload(self) -> Iterator[SampleFile]:
        for file in self.sample.files:
            for uploaded_file in upload(self.cloud, self.tenants[file.tenant], [self.folder / file.tenant / file.name]):
                self.uploaded[uploaded_file.key] = file
            yield file

    def current_uploads(self) -> dict[tuple[str, str], Upload]:
        """Return the uploads so far, by tenant (in the sample) and file name."""
        return {
            (slug, self.uploaded[item.key].name): item
            for slug, tenant in self.tenants.items()
            for item in list_uploads(self.cloud, tenant)
            if item.key in self.uploaded
        }

    def _unfinished(self, uploads: UploadsByFile, seconds: float) -> str:
        unfinished = [item for item in uploads.values() if not item.state.is_final]
        counts = Counter(f"{item.state} in {item.stage}" for item in unfinished)
        counts["not acquired"] = len(self.uploaded) - len(uploads)
        counts["not uploaded"] = len(self.sample.files) - len(self.uploaded)
        errors = sorted({item.note.rstrip(".") for item in unfinished if item.note})[:_MAX_ERRORS]
        return (
            f"After {seconds:.0f} s, {counts.total()} of {len(self.sample.files)} documents are unfinished: "
            + ", ".join(f"{count} {place}" for place, count in counts.items() if count)
            + (f". Last errors: {' | '.join(errors)}" if errors else "")
            + f". The functions' log is {emulator.log(self.cloud.paths)}. Try a longer --timeout."
        )


def _passed(uploads: Collection[Upload], stage: Stage) -> int:
    """Return the number of uploads that passed a stage or are in a final state."""
    stage_index = STAGES.index(stage)
    return sum(item.state.is_final or STAGES.index(item.stage) > stage_index for item in uploads)
