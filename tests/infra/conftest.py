"""Synthesized apps for AWS and the local cloud, with an empty dependency layer."""

import zipfile
from pathlib import Path

import pytest

from infra.packaging import Package
from tests.infra.synthesis import Synthesis, Template, synthesize

LOCAL = {
    "stage": "local",
    "databaseUrl": "postgresql://postgres@127.0.0.1:5432/counterfoil",
    "endpoint": "http://127.0.0.1:4566",
}


@pytest.fixture(scope="session")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Package:
    path = tmp_path_factory.mktemp("layer") / "dependencies.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr(zipfile.ZipInfo("python/nothing.py"), "")
    return Package(path, "0" * 64)


@pytest.fixture(scope="session")
def aws(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return synthesize(tmp_path_factory.mktemp("aws"), {}, dependencies)


@pytest.fixture(scope="session")
def local(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return synthesize(tmp_path_factory.mktemp("local"), LOCAL, dependencies)


@pytest.fixture(scope="session")
def pipeline(aws: Synthesis) -> Template:
    return aws.app


@pytest.fixture(scope="session")
def local_pipeline(local: Synthesis) -> Template:
    return local.app


def deployed(folder: Path) -> dict[str, bytes]:
    """Return the content of templates, assets and asset manifests by path."""
    kinds = ("*.template.json", "*.assets.json", "asset.*", "asset.*/**/*")
    files = {path for kind in kinds for path in folder.glob(kind) if path.is_file()}
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
