"""Fuzz each parser in a process, with coverage guidance by Atheris (libFuzzer).

A process fails if its parser crashes, takes more than 10 s for an input or uses more than 512 MB of memory. It stores
that input in `build/fuzz/TARGET/`. `python -m tests.fuzz TARGET --input FILE` replays a stored input.
"""

import argparse
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

MAX_SECONDS = 10
MAX_MEGABYTES = 512
FOLDER = Path("build") / "fuzz"


def main() -> int:
    """Fuzz the named targets, or all targets if none is named.

    Return 1 if any target failed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=600, help="seconds per target")
    parser.add_argument("--runs", type=int, help="number of inputs per target, instead of a time limit")
    parser.add_argument("--input", type=Path, help="parse this file once, with the first named target")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        fuzz(options.targets[0], options.seconds, options.runs)
    if options.input:
        from tests.fuzz.targets import TARGETS

        TARGETS[options.targets[0]].feed(options.input.read_bytes())
        return 0
    failed = [name for name in options.targets or _names() if _process(name, options.seconds, options.runs) != 0]
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "no crash, no timeout, no excessive memory use\n")
    return min(len(failed), 1)


def _names() -> list[str]:
    from tests.fuzz.targets import TARGETS

    return list(TARGETS)


def _process(name: str, seconds: int, runs: int | None) -> int:
    limit_options = ["--seconds", str(seconds)] if runs is None else ["--runs", str(runs)]
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", "tests.fuzz", name, *limit_options, "--here"], check=False).returncode


def fuzz(name: str, seconds: int, runs: int | None) -> None:
    """Fuzz one target. Does not return, because libFuzzer exits the process."""
    import atheris  # only available on Linux x86-64

    with atheris.instrument_imports(include=["counterfoil", "pypdf", "email", "zipfile"]):
        from tests.fuzz import targets
    target = targets.TARGETS[name]
    corpus = FOLDER / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / sha256(seed).hexdigest()[:16]).write_bytes(seed)
    limit_flag = f"-max_total_time={seconds}" if runs is None else f"-runs={runs}"
    flags = [
        limit_flag,
        f"-timeout={MAX_SECONDS}",
        f"-rss_limit_mb={MAX_MEGABYTES}",
        f"-max_len={target.longest}",
        f"-artifact_prefix={FOLDER / name}/",
        "-print_final_stats=1",
    ]

    def fuzz_input(content: bytes) -> None:
        if target.feed(content) == "":
            raise AssertionError("the input was rejected without a message")

    atheris.Setup([sys.argv[0], *flags, str(corpus)], fuzz_input)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
