"""`counterfoil ingest`: upload files for a tenant, or mail for whom it names, and wait for what becomes of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from cli import outcomes
from cli.failures import CommandError, ExitCode, UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.outcomes import Outcome, State, show_outcomes
from cli.output import aside, page, print_json
from cli.tenants import Tenant, chosen
from counterfoil.aws import errors_mapped
from counterfoil.documents.mail.message import HEAD_BYTES, is_mail
from counterfoil.documents.uploads import INBOX, PREFIX

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Uploaded:
    """A file, and the key that it was uploaded to."""

    path: Path
    key: str


def ingest(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of files.", show_default=False)
    ],
    *,
    tenant: Annotated[
        str | None,
        typer.Option(help="Slug of the tenant that they belong to. Mail finds its own without.", show_default=False),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is known what became of each.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds to wait at most.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print the uploads, or their outcomes, as JSON.")] = False,
) -> None:
    """Upload files for a tenant, or mail for whom it names.

    Without --tenant the files are mails (.eml), and go where Amazon SES puts them: each tenant gets those that are
    written to one of its addresses. With it, a mail is the tenant's, whoever it was written to.

    Every upload gets a key of its own, so that files of one name never replace each other. Hidden files in folders are
    left out. With --wait the command exits with 1 when a file failed.
    """
    cloud = Cloud.at(place_of(context.obj))
    owner = chosen(cloud, tenant)[0] if tenant is not None else None
    files = list(_files(paths))
    if owner is None:
        _check_mails(files)
    uploaded = list(upload(cloud, owner, files))
    if not wait:
        if as_json:
            print_json([{"file": str(one.path), "key": one.key} for one in uploaded])
        else:
            page().print(f"{len(uploaded)} uploaded. What becomes of them: {_look(owner)}")
        return
    found = wait_for(cloud, owner, uploaded, timeout)
    if as_json:
        print_json([outcome.record for outcome in found])
    else:
        show_outcomes(found)
    if any(outcome.state is State.FAILED for outcome in found):
        raise typer.Exit(ExitCode.UNWANTED)


def _look(owner: Tenant | None) -> str:
    return f"counterfoil documents{f' --tenant {owner.slug}' if owner else ''}"


def _check_mails(files: Sequence[Path]) -> None:
    for path in files:
        try:
            with path.open("rb") as content:
                head = content.read(HEAD_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
        if not is_mail(head):
            raise UsageError(f"{path} is no mail, which would say whom it is for: add --tenant SLUG.")


def upload(
    cloud: Cloud,
    tenant: Tenant | None,
    files: Sequence[Path],
    before: Callable[[str, str], None] = lambda _bucket, _key: None,
) -> Iterator[Uploaded]:
    """Upload each file to `uploads/{tenant}/{unique}/{name}`, or for no tenant to `inbox/{unique}/{name}`.

    `before` is told bucket and key before a file is there.

    Raises:
        UsageError: a file cannot be read.
        ServiceUnavailableError, RejectedRequestError: S3 did not take it.
    """
    s3, bucket = cloud.client("s3"), cloud.outputs["UploadsBucketName"]
    for path in files:
        place = INBOX if tenant is None else f"{PREFIX}{tenant.slug}/"
        key = f"{place}{uuid4()}/{path.name}"
        try:
            with path.open("rb") as content, errors_mapped():
                before(bucket, key)
                s3.put_object(Bucket=bucket, Key=key, Body=content)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
        yield Uploaded(path, key)


def wait_for(cloud: Cloud, tenant: Tenant | None, uploaded: Sequence[Uploaded], seconds: float) -> list[Outcome]:
    """Wait until what became of each upload is final. `tenant` is None for mails, whoever they are for.

    Raises:
        CommandError: it is not, after `seconds`.
    """
    keys = {one.key for one in uploaded}
    deadline = time.monotonic() + seconds
    with aside().status("Waiting") as shown:
        while True:
            found = list(outcomes.of_keys(cloud, keys))
            final = {outcome.key for outcome in found} - {
                outcome.key for outcome in found if not outcome.state.is_final
            }
            if final == keys:
                return found
            if time.monotonic() > deadline:
                raise CommandError(
                    f"After {seconds:.0f} s it is not known yet what becomes of {len(keys - final)} of {len(keys)}: "
                    f"see '{_look(tenant)}' and 'counterfoil status'."
                )
            shown.update(f"Waiting: {len(final)} of {len(keys)}")
            time.sleep(POLL_SECONDS)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files that are meant, folders walked through."""
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
            if not inside:
                raise UsageError(f"There are no files in {path}.")
            yield from (_named(file) for file in inside)
        elif path.is_file():
            yield _named(path)
        else:
            raise UsageError(f"{path} is no file or folder." if path.exists() else f"There is no file {path}.")


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _named(path: Path) -> Path:
    """The same path, if S3 can take its name."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"The name of {str(path)!r} is not written in UTF-8, as S3 wants it: rename the file."
        ) from None
    return path
