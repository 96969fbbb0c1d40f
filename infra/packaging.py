"""Packs code for Lambda into zip files without Docker.

The same input results in the same bytes and name.

The packages are the dependency layer (`infra/dependencies.py`), the layer of shared code, and an asset per function.
Byte code is included if an interpreter of the target's version is available, because imports take about three times as
long without it. The byte code is of the kind "unchecked-hash", because files on Lambda have no meaningful modification
times.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import uv

from infra import pages

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "packages"
UNZIPPED_LIMIT = 250 * 1024 * 1024
"""Lambda's limit for the unzipped size of a function with its layers, in bytes."""

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644 << 16
_FORMAT = "1"
"""Part of every hash. Increase it when a change to this module changes the packages for the same files."""


class PackagingError(Exception):
    """A package cannot be built. The message states the reason and the fix."""


@dataclass(frozen=True)
class Target:
    """Platform on which packed code will run."""

    python: str
    """Major and minor version, as in "3.13"."""
    platform: str | None
    """Name for `uv pip install --python-platform`, or None for this machine."""


LAMBDA = Target(python="3.13", platform="aarch64-manylinux_2_28")


def local_target() -> Target:
    """Return the local cloud's target, which uses the current interpreter."""
    return Target(python=f"{sys.version_info.major}.{sys.version_info.minor}", platform=None)


@dataclass(frozen=True)
class Package:
    """A zip file and the hash of its input."""

    path: Path
    hash: str


@cache
def interpreter(version: str) -> str | None:
    """Return the path of this Python version, or None if it is not installed.

    The interpreter is used to compile byte code.
    """
    if version == local_target().python:
        return sys.executable
    result = subprocess.run(  # noqa: S603 - a fixed command
        [uv.find_uv_bin(), "python", "find", "--no-python-downloads", "--no-project", version],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() if result.returncode == 0 else None


def code_layer(target: Target, *, root: Path = ROOT) -> Package:
    """Return the layer with the shared code: `python/counterfoil/`."""
    return pack(files_under(root / "layers" / "shared", ["python"]), target, name="code", target_folder="/opt")


def function(name: str, extra_files: Iterable[str], target: Target, *, root: Path = ROOT) -> Package:
    """Return a function's asset, which contains its folder and its extra files.

    The files have the same paths as in the project. Its folder `pages`, if any, is replaced by the bundled files for
    browsers.

    Raises:
        PackagingError: the folder, its handler or an extra file is missing, or its pages cannot be bundled.
    """
    handler = root / "functions" / name / "handler.py"
    if not handler.is_file():
        raise PackagingError(
            f"functions/{name}/handler.py is missing: add it, or remove the row {name!r} from the table."
        )
    paths = ["functions/__init__.py", f"functions/{name}", *extra_files]
    files = _with_pages(files_under(root, paths), f"functions/{name}/{pages.FOLDER}", root)
    return pack(files, target, name=f"function-{name}", target_folder="/var/task")


def _with_pages(files: dict[str, Path], folder: str, root: Path) -> dict[str, Path]:
    if not (root / folder).is_dir():
        return files
    try:
        bundled = pages.write(pages.build_assets(root / folder, root / "node_modules"), BUILD)
    except pages.PagesError as error:
        raise PackagingError(str(error)) from None
    others = {name: path for name, path in files.items() if not name.startswith(f"{folder}/")}
    return dict(sorted({**others, **{f"{folder}/{name}": path for name, path in bundled.items()}}.items()))


def files_under(folder: Path, paths: Iterable[str]) -> dict[str, Path]:
    """Return the files in `paths`, by path relative to `folder`.

    The contents of folders are included. Byte code and hidden files are excluded.

    Raises:
        PackagingError: a file or folder does not exist.
    """
    files: dict[str, Path] = {}
    for name in paths:
        start = folder / name
        if not start.exists():
            raise PackagingError(f"{name} does not exist in the project and cannot be packed.")
        for path in [start] if start.is_file() else start.rglob("*"):
            relative = path.relative_to(folder)
            is_hidden = any(part.startswith(".") or part == "__pycache__" for part in relative.parts)
            if path.is_file() and not is_hidden and path.suffix != ".pyc":
                files[relative.as_posix()] = path
    return dict(sorted(files.items()))


def pack(files: Mapping[str, Path], target: Target, *, name: str, target_folder: str) -> Package:
    """Pack `files` (path in the package -> file), or return the existing package.

    `target_folder` is the folder where the package will be unpacked. Tracebacks show it.
    """
    compiler = interpreter(target.python)
    digest = hashlib.sha256(f"{_FORMAT}\n{target.python}\n{compiler is not None}\n{target_folder}\n".encode())
    for relative, path in files.items():
        digest.update(f"{relative}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    package = Package(BUILD / f"{name}-{digest.hexdigest()[:16]}.zip", digest.hexdigest())
    if not package.path.exists():
        with tempfile.TemporaryDirectory() as folder:
            for relative, path in files.items():
                copy = Path(folder) / relative
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            compile_all(Path(folder), compiler, target_folder=target_folder)
            archive(Path(folder), package.path)
    return package


def compile_all(folder: Path, compiler: str | None, *, target_folder: str) -> None:
    """Compile the files in `folder` in place. Files with syntax errors are skipped."""
    if compiler is None:
        return
    # Hash randomization would write sets in constants in random order.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    arguments = [
        "-m",
        "compileall",
        "-q",
        "-j",
        "0",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(folder),
        "-p",
        target_folder,
    ]
    subprocess.run(  # noqa: S603 - our own arguments
        [compiler, *arguments, str(folder)], env=environment, stdout=subprocess.DEVNULL, check=False
    )


def archive(folder: Path, destination: Path) -> None:
    """Zip a folder with sorted names, a fixed time and a fixed mode.

    The file appears only when complete.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_suffix(f".{os.getpid()}.partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _ZIP_EPOCH)
                entry.external_attr = _FILE_MODE
                entry.compress_type = zipfile.ZIP_DEFLATED
                bundle.writestr(entry, path.read_bytes())
    partial.replace(destination)


def unzipped_size(*packages: Package) -> int:
    """Return the unpacked size of the packages in bytes."""
    total = 0
    for package in packages:
        with zipfile.ZipFile(package.path) as bundle:
            total += sum(entry.file_size for entry in bundle.infolist())
    return total
