"""The console is built into few files with content hashes in their names."""

import gzip
import json
from pathlib import Path

import pytest

from infra import pages
from infra.packaging import LAMBDA, PackagingError, function

ROOT = Path(__file__).parents[2]
NODE_MODULES = ROOT / "node_modules"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A console with two modules."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "app.tsx").write_text('import { word } from "./word";\ndocument.title = word;\n')
    (folder / "word.ts").write_text('export const word: string = "first";\n')
    (folder / "style.css").write_text("body { color: #000000; }\n")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "index.html").write_text('<link href="{root}a/{style.css}"><script src="{root}a/{app.js}"></script>')
    return folder


def assets(built: dict[str, bytes]) -> dict[str, str]:
    """Return the names of the built files by source name."""
    names = json.loads(built["files.json"])["assets"]
    return {f"{name.rpartition('-')[0]}{Path(name).suffix}": name for name in names}


def test_modules_are_bundled_and_linked_from_the_page(source: Path):
    built = pages.build_assets(source, NODE_MODULES)
    named = assets(built)

    assert named.keys() == {"app.js", "style.css", "icon.svg", "licenses.txt"}
    assert built["index.html"].decode() == (
        f'<link href="{{root}}a/{named["style.css"]}"><script src="{{root}}a/{named["app.js"]}"></script>'
    )
    assert b"first" in gzip.decompress(built[f"{named['app.js']}.gz"])


def test_build_is_reproducible(source: Path):
    assert pages.build_assets(source, NODE_MODULES) == pages.build_assets(source, NODE_MODULES)


def test_changed_module_renames_only_its_script(source: Path):
    before = pages.build_assets(source, NODE_MODULES)
    (source / "word.ts").write_text('export const word: string = "second";\n')
    after = pages.build_assets(source, NODE_MODULES)

    assert {name for name, file in assets(before).items() if assets(after)[name] != file} == {"app.js"}
    assert before["index.html"] != after["index.html"]
    assert json.loads(before["files.json"])["page"] != json.loads(after["files.json"])["page"]


def test_syntax_error_is_reported_with_its_line(source: Path):
    (source / "word.ts").write_text("export const = 1;\n")

    with pytest.raises(pages.PagesError, match=r"word\.ts:1:13"):
        pages.build_assets(source, NODE_MODULES)


def test_missing_bundler_error_names_make_setup(source: Path, tmp_path: Path):
    with pytest.raises(pages.PagesError, match="run 'make setup'"):
        pages.build_assets(source, tmp_path)


def test_package_contains_built_pages_without_sources():
    packed = function("admin_api", (), LAMBDA)

    import zipfile

    with zipfile.ZipFile(packed.path) as bundle:
        names = {name for name in bundle.namelist() if "/pages/" in name}
    assert "functions/admin_api/pages/files.json" in names
    assert not [name for name in names if name.endswith((".js", ".ts", ".tsx", ".css"))]


def test_failed_page_build_fails_packaging(source: Path, tmp_path: Path):
    folder = tmp_path / "functions" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "functions" / "__init__.py").write_text("")
    (folder / "handler.py").write_text("")
    source.rename(folder / "pages")

    with pytest.raises(PackagingError, match="make setup"):
        function("one", (), LAMBDA, root=tmp_path)


def test_library_versions_match_the_lock_file():
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    declared = json.loads((ROOT / "package.json").read_text())["devDependencies"]

    for library in pages.LIBRARIES:
        assert locked[f"node_modules/{library}"]["version"] == declared[library]
