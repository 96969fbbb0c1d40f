"""Child processes parse untrusted files within time, memory and output limits."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.documents.page_images import LIMITS
from counterfoil.documents.pdf import find_scans
from counterfoil.documents.sandbox import parsers, process
from counterfoil.documents.sandbox.process import Limits, run
from counterfoil.documents.splitting import split
from counterfoil.documents.text import reading
from counterfoil.documents.text.page import Page, Word, pages
from counterfoil.errors import CancelledError, InvalidDocumentError, ParserError
from tests.documents.einvoice_samples import pdf, ubl_invoice
from tests.documents.reading.samples import LASKU, bundle, invoice_without_readable_amounts, scanned_pdf, text_pdf
from tests.documents.test_page_images import drawing_forever
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import write_bundle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = {"is_pdf": True, "number": 1}
ENDLESS = drawing_forever()
linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


@pytest.fixture(autouse=True)
def _fresh_children() -> Iterator[None]:
    process.close_idle()
    yield
    process.close_idle()


def child() -> psutil.Process:
    """Return the only idle child process."""
    (idle,) = process._idle
    return psutil.Process(idle._process.pid)


@pytest.mark.parametrize(
    "content",
    [
        text_pdf(LASKU, LASKU),
        scanned_pdf(2),
        bundle([scanned_pdf(), text_pdf(LASKU)]),
        pdf(),
        invoice_without_readable_amounts(),
    ],
)
def test_child_and_parent_parse_files_identically(content: bytes) -> None:
    read = parsers.read(content)

    expected = pages(content)
    assert read.extraction == extract_xml(content)
    assert (read.pages, (read.scans, read.noise)) == (expected, find_scans(content, expected))


def test_child_and_parent_apply_rules_identically() -> None:
    for content in (
        text_pdf(LASKU),
        text_pdf(LASKU, LASKU),
        write_bundle([deal for _, deal in orders_with_invoices(1, 3)]),
    ):
        read = pages(content)
        assert parsers.split_pages(read) == split(read)
        assert parsers.read_pages(read) == reading.read(read)
    assert parsers.read_pages([]) is None


@pytest.mark.parametrize("rules", [parsers.split_pages, parsers.read_pages])
def test_text_exceeding_the_time_limit_is_rejected(
    rules: Callable[[Sequence[Page]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tuple(Word("1,00", 4.0 * (number % 100), number // 100, 3.0, number // 100 + 0.9) for number in range(9000))
    monkeypatch.setattr(parsers, "READ_LIMITS", Limits(cpu_seconds=1, seconds=900, answer_bytes=1000))

    with pytest.raises(InvalidDocumentError, match="takes longer than 1 second"):
        rules([Page(600.0, 800.0, words)] * 30)


@pytest.mark.parametrize("mebibytes", [1, 3])
def test_child_reads_a_file_larger_than_its_pipe(mebibytes: int) -> None:
    content = ubl_invoice() + b" " * (mebibytes * 1024 * 1024)

    assert parsers.read(content).extraction == extract_xml(ubl_invoice())


def test_child_is_reused() -> None:
    parsers.read(ubl_invoice())
    first = child().pid
    with pytest.raises(InvalidDocumentError, match="empty"):
        parsers.read(b"")
    parsers.read(text_pdf(LASKU))

    assert child().pid == first


def test_threads_use_separate_children() -> None:
    files = [text_pdf([*LASKU, f"{number}"]) for number in range(12)]

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(parsers.read, files))

    assert [read.pages for read in results] == [pages(content) for content in files]
    assert len(process._idle) <= process.MAX_IDLE


@linux
def test_child_has_limits_and_a_minimal_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    parsers.read(ubl_invoice())

    assert set(child().environ()) - {"LC_CTYPE"} == {"PYTHONPATH"}
    for kind, most in (
        (psutil.RLIMIT_AS, process.MEMORY_BYTES),
        (psutil.RLIMIT_NPROC, 0),
        (psutil.RLIMIT_FSIZE, 0),
        (psutil.RLIMIT_CORE, 0),
    ):
        assert child().rlimit(kind) == (most, most)
    soft, hard = child().rlimit(psutil.RLIMIT_CPU)
    assert 0 < soft <= hard == 600


@pytest.mark.parametrize(
    "limits", [Limits(cpu_seconds=1, seconds=900, answer_bytes=1), Limits(cpu_seconds=900, seconds=1, answer_bytes=1)]
)
def test_endless_file_is_rejected_and_next_file_parsed(limits: Limits) -> None:
    with pytest.raises(InvalidDocumentError, match="takes longer than 1 second"):
        list(run("render", ENDLESS, PAGE, limits))

    assert process._idle == []
    assert parsers.read(text_pdf(LASKU)).pages == pages(text_pdf(LASKU))


def test_rejection_keeps_its_error_code() -> None:
    with pytest.raises(InvalidDocumentError, match="truncated") as rejection:
        parsers.read(pdf(text="Rechnung")[:-20])
    assert rejection.value.code == "truncated_pdf"


def test_output_exceeding_the_size_limit_is_rejected() -> None:
    with pytest.raises(InvalidDocumentError, match="too large"):
        list(run("render", text_pdf(LASKU), PAGE, Limits(cpu_seconds=10, seconds=60, answer_bytes=100)))


def test_crash_of_a_fresh_child_rejects_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    _kill_next_children(signal.SIGSEGV, monkeypatch, times=9)

    with pytest.raises(InvalidDocumentError, match="crashes its parser"):
        parsers.read(text_pdf(LASKU))


def test_call_is_retried_after_reused_child_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers.read(ubl_invoice())
    _kill_next_children(signal.SIGSEGV, monkeypatch, times=1)

    assert parsers.read(text_pdf(LASKU)).pages == pages(text_pdf(LASKU))


def test_external_kill_of_child_is_a_transient_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _kill_next_children(signal.SIGKILL, monkeypatch, times=9)

    with pytest.raises(ParserError, match="killed from outside"):
        parsers.read(text_pdf(LASKU))


def test_dead_idle_child_is_replaced() -> None:
    parsers.read(ubl_invoice())
    dead_child = child()
    dead_child.kill()
    dead_child.wait()

    assert parsers.read(ubl_invoice()).extraction == extract_xml(ubl_invoice())


def test_child_start_failure_is_transient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ParserError, match="did not start"):
        parsers.read(text_pdf(LASKU))

    monkeypatch.setattr(sys, "executable", "/no/such/file")
    with pytest.raises(ParserError, match="did not start"):
        parsers.read(text_pdf(LASKU))


def test_canceled_call_ends_its_child() -> None:
    def check() -> None:
        raise CancelledError("canceled")

    with pytest.raises(CancelledError):
        list(run("render", ENDLESS, PAGE, LIMITS, check))

    assert process._idle == []


def test_closing_unfinished_output_ends_the_child() -> None:
    parts = parsers.extract_pages(text_pdf(LASKU, LASKU), [(1, 1), (2, 2)])
    assert next(parts).startswith(b"%PDF")
    parts.close()  # type: ignore[attr-defined]

    assert process._idle == []


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """The parent is killed while its child parses an endless file."""
    file = tmp_path / "endless.pdf"
    file.write_bytes(ENDLESS)
    program = f"""
from pathlib import Path
from counterfoil.documents.sandbox import process
child = process._Child()
print(child._process.pid, flush=True)
list(child.call("render", Path({str(file)!r}).read_bytes(), {PAGE!r}, process.Limits(300, 300, 9), lambda: None))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        orphan = psutil.Process(int(parent.stdout.readline()))
        while orphan.cpu_times().user < 1:  # the child is parsing the file
            assert parent.poll() is None
        parent.send_signal(signal.SIGKILL)
        orphan.wait(timeout=10)


def _kill_next_children(number: int, monkeypatch: pytest.MonkeyPatch, *, times: int) -> None:
    """Make the next `times` calls kill their child before they send the file.

    The child is killed with signal `number`.
    """
    write: Any = process._Child._write
    remaining_calls = [times]

    def kill_and_write(self: Any, head: bytes, content: bytes, clock: Any) -> None:
        if remaining_calls[0] > 0:
            remaining_calls[0] -= 1
            os.kill(self._process.pid, number)
            self._process.wait()
        write(self, head, content, clock)

    monkeypatch.setattr(process._Child, "_write", kill_and_write)
