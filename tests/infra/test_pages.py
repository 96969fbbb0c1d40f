"""What is made of the console's modules for browsers: few files, called after what is in them."""

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
    """Pages of two modules."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "app.js").write_text('import { word } from "./word.js";\ndocument.title = word;\n')
    (folder / "word.js").write_text('export const word = "first";\n')
    (folder / "style.css").write_text("body { color: #000000; }\n")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "index.html").write_text('<link href="{root}a/{style.css}"><script src="{root}a/{app.js}"></script>')
    return folder


def assets(made: dict[str, bytes]) -> dict[str, str]:
    """Names of the files by what they were made from."""
    names = json.loads(made["files.json"])["assets"]
    return {f"{name.rpartition('-')[0]}{Path(name).suffix}": name for name in names}


def test_modules_become_one_script_and_the_page_names_the_files(source: Path):
    made = pages.make(source, NODE_MODULES)
    named = assets(made)

    assert named.keys() == {"app.js", "style.css", "icon.svg", "licenses.txt"}
    assert made["index.html"].decode() == (
        f'<link href="{{root}}a/{named["style.css"]}"><script src="{{root}}a/{named["app.js"]}"></script>'
    )
    assert b"first" in gzip.decompress(made[f"{named['app.js']}.gz"])


def test_the_same_source_gives_the_same_bytes(source: Path):
    assert pages.make(source, NODE_MODULES) == pages.make(source, NODE_MODULES)


def test_a_changed_module_changes_the_name_of_its_script_alone_and_the_page(source: Path):
    before = pages.make(source, NODE_MODULES)
    (source / "word.js").write_text('export const word = "second";\n')
    after = pages.make(source, NODE_MODULES)

    assert {name for name, file in assets(before).items() if assets(after)[name] != file} == {"app.js"}
    assert before["index.html"] != after["index.html"]
    assert json.loads(before["files.json"])["page"] != json.loads(after["files.json"])["page"]


def test_a_module_that_is_none_is_told_with_its_line(source: Path):
    (source / "word.js").write_text("export const = 1;\n")

    with pytest.raises(pages.PagesError, match=r"word\.js:1:13"):
        pages.make(source, NODE_MODULES)


def test_without_the_bundler_the_way_out_is_told(source: Path, tmp_path: Path):
    with pytest.raises(pages.PagesError, match="run 'make setup'"):
        pages.make(source, tmp_path)


def test_a_function_is_packed_with_what_was_made_and_not_with_the_modules():
    packed = function("admin_api", (), LAMBDA)

    import zipfile

    with zipfile.ZipFile(packed.path) as bundle:
        names = {name for name in bundle.namelist() if "/pages/" in name}
    assert "functions/admin_api/pages/files.json" in names
    assert not [name for name in names if name.endswith((".js", ".css"))]


def test_pages_that_cannot_be_made_are_a_failure_of_packing(source: Path, tmp_path: Path):
    folder = tmp_path / "functions" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "functions" / "__init__.py").write_text("")
    (folder / "handler.py").write_text("")
    source.rename(folder / "pages")

    with pytest.raises(PackagingError, match="make setup"):
        function("one", (), LAMBDA, root=tmp_path)


def test_the_libraries_are_those_of_the_lock():
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]

    for library in pages.LIBRARIES:
        assert locked[f"node_modules/{library}"]["version"] == wanted[library]
