"""Lambda packages are reproducible and contain only the expected files.

Their byte code matches the interpreter.
"""

import ast
import os
import py_compile
import re
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from infra import packaging
from infra.packaging import LAMBDA, Package, PackagingError, Target, code_layer, function, local_target, unzipped_size
from infra.worker_table import WORKERS, WorkerSpec

ROOT = Path(__file__).parents[2]
UNKNOWN = Target(python="3.99", platform=None)
"""A target without an interpreter on any machine."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two functions and a separate build folder."""
    monkeypatch.setattr(packaging, "BUILD", tmp_path / "build")
    root = tmp_path / "project"
    for path in (
        "functions/__init__.py",
        "functions/one/handler.py",
        "functions/two/handler.py",
        "migrations/0001.sql",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("KINDS = {'a', 'b', 'c'}\n")
    return root


def names_in(package: Package) -> set[str]:
    with zipfile.ZipFile(package.path) as bundle:
        return set(bundle.namelist())


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_function_package_has_only_own_and_extra_files(row: WorkerSpec):
    packed = names_in(function(row.name, row.extra_files, UNKNOWN))

    assert f"functions/{row.name}/handler.py" in packed
    assert "functions/__init__.py" in packed
    allowed = (f"functions/{row.name}/", *(f"{extra}/" for extra in row.extra_files))
    assert {name for name in packed if not name.startswith(allowed)} == {"functions/__init__.py"}


def test_migrations_are_packed_into_migrate_only():
    with_migrations = {
        row.name
        for row in WORKERS
        if any("migrations/" in name for name in names_in(function(row.name, row.extra_files, UNKNOWN)))
    }
    migrate = names_in(function("migrate", ("migrations",), UNKNOWN))

    assert with_migrations == {"migrate"}
    assert {f"migrations/{path.name}" for path in (ROOT / "migrations").glob("*.sql")} <= migrate


def test_code_layer_is_on_the_lambda_import_path():
    assert "python/counterfoil/settings.py" in names_in(code_layer(UNKNOWN))


def test_package_bytes_do_not_depend_on_file_times(project: Path):
    first = function("one", (), local_target(), root=project)
    before = first.path.read_bytes()
    first.path.unlink()
    os.utime(project / "functions/one/handler.py", (1, 1))

    second = function("one", (), local_target(), root=project)

    assert second == first
    assert second.path.read_bytes() == before


def test_existing_package_is_not_rebuilt(project: Path):
    first = function("one", (), UNKNOWN, root=project)
    first.path.write_bytes(b"as it was")

    assert function("one", (), UNKNOWN, root=project).path.read_bytes() == b"as it was"


def test_editing_one_worker_changes_only_its_package(project: Path):
    before = {name: function(name, (), UNKNOWN, root=project).hash for name in ("one", "two")}
    (project / "functions/one/handler.py").write_text("KINDS = set()\n")
    after = {name: function(name, (), UNKNOWN, root=project).hash for name in ("one", "two")}

    assert before["one"] != after["one"]
    assert before["two"] == after["two"]


def test_added_copy_of_a_file_changes_hash(project: Path):
    before = function("one", (), UNKNOWN, root=project).hash
    (project / "functions/one/renamed.py").write_bytes((project / "functions/one/handler.py").read_bytes())

    assert function("one", (), UNKNOWN, root=project).hash != before


def test_byte_code_is_unchecked_and_matches_the_interpreter(project: Path):
    package = function("one", (), local_target(), root=project)
    tag = sys.implementation.cache_tag

    with zipfile.ZipFile(package.path) as bundle:
        byte_code = bundle.read(f"functions/one/__pycache__/handler.{tag}.pyc")
    flags = int.from_bytes(byte_code[4:8], "little")
    assert flags == 0b01  # PEP 552: hash-based and unchecked
    assert py_compile.PycInvalidationMode.UNCHECKED_HASH.name == "UNCHECKED_HASH"
    assert b"/var/task/functions/one/handler.py" in byte_code


def test_missing_interpreter_omits_byte_code_and_changes_hash(project: Path):
    without = function("one", (), UNKNOWN, root=project)

    assert names_in(without) == {"functions/__init__.py", "functions/one/handler.py"}
    assert without.hash != function("one", (), local_target(), root=project).hash


def test_caches_and_hidden_files_are_not_packed(project: Path):
    for path in ("functions/one/__pycache__/handler.cpython-39.pyc", "functions/one/.secret", "functions/one/old.pyc"):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_bytes(b"left over")

    assert names_in(function("one", (), UNKNOWN, root=project)) == {"functions/__init__.py", "functions/one/handler.py"}


def test_row_without_handler_is_rejected(project: Path):
    with pytest.raises(
        PackagingError, match=r"functions/three/handler\.py is missing: add it, or remove the row 'three'"
    ):
        function("three", (), LAMBDA, root=project)


def test_missing_extra_file_is_rejected(project: Path):
    with pytest.raises(PackagingError, match=r"^pages does not exist in the project and cannot be packed"):
        function("one", ("pages",), LAMBDA, root=project)


def test_unzipped_size_adds_up_all_files(project: Path):
    package = function("one", (), UNKNOWN, root=project)

    assert unzipped_size(package, package) == 2 * sum((project / name).stat().st_size for name in names_in(package))


def test_declared_dependencies_match_imports():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    required = {re.split(r"[\[><=]", requirement)[0] for requirement in declared}
    sources = [*(ROOT / "layers" / "shared").rglob("*.py"), *(ROOT / "functions").rglob("*.py")]
    modules = {name for source in sources for name in imported_modules(source)}
    of_distribution = packages_distributions()
    found = {of_distribution[name][0].lower().replace("_", "-") for name in modules if name in of_distribution}
    # Parts of declared packages that are distributed separately.
    parts = {"psycopg-pool": "psycopg", "pydantic-core": "pydantic", "botocore": "boto3", "counterfoil": ""}
    assert {parts.get(name, name) for name in found} - {""} == required - {"tzdata"}  # data files, never imported


def imported_modules(source: Path) -> set[str]:
    """Return the top-level names of the modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names
