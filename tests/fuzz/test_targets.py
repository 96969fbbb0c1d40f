"""Parsers read damaged files or reject them with known errors.

The files include those of earlier crashes.
"""

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
MAX_CPU_SECONDS = 10.0
"""Maximum CPU time per input. Unlike elapsed time, it does not grow on a busy machine."""

names = pytest.mark.parametrize("name", TARGETS)


@st.composite
def damaged_files(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Draw a valid file with bytes overwritten, removed, repeated or inserted."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 8))):
        position = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 64))
        match draw(st.sampled_from(("overwrite", "cut", "double", "insert", "end"))):
            case "overwrite":
                content[position : position + length] = draw(st.binary(min_size=length, max_size=length))
            case "cut":
                del content[position : position + length]
            case "double":
                content[position:position] = content[position : position + length] * draw(st.integers(1, 20))
            case "insert":
                content[position:position] = draw(st.binary(max_size=length))
            case "end":
                del content[position:]
    return bytes(content)


@names
def test_seed_files_are_parsed_without_unknown_errors(name: str) -> None:
    seeds = list(TARGETS[name].seeds())

    assert seeds
    for seed in seeds:
        assert TARGETS[name].feed(seed) != "", "the input was rejected without a message"


@names
def test_damaged_files_raise_only_known_errors(name: str) -> None:
    # With `print_blob`, a failure prints how to reproduce it.
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=True)
    @given(damaged_files(list(TARGETS[name].seeds())))
    def feed(content: bytes) -> None:
        started = time.process_time()
        assert TARGETS[name].feed(content) != "", "the input was rejected without a message"
        assert time.process_time() - started < MAX_CPU_SECONDS

    feed()


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_inputs_of_earlier_crashes_are_parsed_or_rejected(path: Path) -> None:
    assert TARGETS[path.parent.name].feed(path.read_bytes()) != "", "the input was rejected without a message"


def test_unknown_parser_error_is_raised() -> None:
    broken = Target(lambda content: content.decode("ascii"), lambda: iter([b"x"]))

    with pytest.raises(UnicodeDecodeError):
        broken.feed(b"\xff")


@pytest.mark.skipif(find_spec("atheris") is None, reason="Atheris requires Linux on x86-64")
def test_fuzzer_stores_the_input_of_a_crash(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        "import tests.fuzz.__main__ as fuzz, tests.fuzz.targets as targets\n"
        "def read(content):\n"
        "    if content[:1] == b'%': raise ValueError('found')\n"
        "targets.TARGETS = {'broken': targets.Target(read, lambda: iter([b'$PDF']), longest=4)}\n"
        "fuzz.fuzz('broken', seconds=60, runs=None)\n"
    )
    root = Path(__file__).parents[2]
    # A shell forks the fuzzer, because the peak memory of a child includes the memory of the process that forked it.
    process = subprocess.run(
        ["/bin/sh", "-c", '"$0" "$1"; exit $?', sys.executable, str(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        check=False,
    )

    assert process.returncode != 0
    assert b"ValueError: found" in process.stdout + process.stderr
    stored = {path.name.split("-")[0]: path for path in (tmp_path / "build" / "fuzz" / "broken").iterdir()}
    assert stored.keys() == {"corpus", "crash"}, process.stderr
    assert stored["crash"].read_bytes()[:1] == b"%"
