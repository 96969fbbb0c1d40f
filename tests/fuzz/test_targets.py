"""Each parser on good files that were damaged: short runs of what `make fuzz` does for longer, and old finds."""

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, Target

REGRESSIONS = Path(__file__).parent / "regressions"
SLOWEST = 10.0
"""Seconds of the processor's time: a busy machine makes nothing slower by them."""

names = pytest.mark.parametrize("name", TARGETS)


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A good file after a few of a fuzzer's changes: bytes overwritten, cut out, doubled, put in."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 64))
        match draw(st.sampled_from(("overwrite", "cut", "double", "insert", "end"))):
            case "overwrite":
                content[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "cut":
                del content[at : at + length]
            case "double":
                content[at:at] = content[at : at + length] * draw(st.integers(1, 20))
            case "insert":
                content[at:at] = draw(st.binary(max_size=length))
            case "end":
                del content[at:]
    return bytes(content)


@names
def test_good_files_are_read(name: str) -> None:
    seeds = list(TARGETS[name].seeds())

    assert seeds
    for seed in seeds:
        assert TARGETS[name].feed(seed) != "", "a refusal without a sentence"


@names
def test_damaged_files_are_read_or_refused_in_our_own_words(name: str) -> None:
    # A failure prints what brings it back.
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=True)
    @given(damaged(list(TARGETS[name].seeds())))
    def try_(content: bytes) -> None:
        started = time.process_time()
        assert TARGETS[name].feed(content) != "", "a refusal without a sentence"
        assert time.process_time() - started < SLOWEST

    try_()


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_broke_a_parser_breaks_it_no_more(path: Path) -> None:
    assert TARGETS[path.parent.name].feed(path.read_bytes()) != "", "a refusal without a sentence"


def test_a_parser_that_raises_what_is_not_ours_is_a_find() -> None:
    broken = Target(lambda content: content.decode("ascii"), lambda: iter([b"x"]))

    with pytest.raises(UnicodeDecodeError):
        broken.feed(b"\xff")


@pytest.mark.skipif(find_spec("atheris") is None, reason="Atheris is for Linux on x86-64 alone")
def test_the_fuzzer_runs_and_keeps_what_breaks_a_parser(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        "import tests.fuzz.__main__ as fuzz, tests.fuzz.targets as targets\n"
        "def read(content):\n"
        "    if content[:1] == b'%': raise ValueError('found')\n"
        "targets.TARGETS = {'broken': targets.Target(read, lambda: iter([b'$PDF']), longest=4)}\n"
        "fuzz.fuzz('broken', seconds=60, runs=None)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, check=False
    )

    assert done.returncode != 0
    assert b"ValueError: found" in done.stdout + done.stderr
    kept = {path.name.split("-")[0]: path for path in (tmp_path / "build" / "fuzz" / "broken").iterdir()}
    assert kept.keys() == {"corpus", "crash"}, done.stderr
    assert kept["crash"].read_bytes()[:1] == b"%"
