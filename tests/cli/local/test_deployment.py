"""Deployment fingerprints, and the reasons for failed deployments."""

from pathlib import Path

import pytest

from cli.failures import CloudError
from cli.local import deployment
from cli.local.cloud import State
from cli.local.deployment import DeployOptions, Progress
from cli.local.emulator import Emulator
from cli.local.paths import ROOT, CloudPaths

URL = "postgresql://postgres@127.0.0.1:5432/counterfoil"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one function."""
    source = tmp_path / "functions" / "one" / "handler.py"
    source.parent.mkdir(parents=True)
    source.write_text("x = 1\n")
    for name in deployment.SOURCES:
        if not (tmp_path / name).exists():
            (tmp_path / name).write_text("")
    monkeypatch.setattr(deployment, "ROOT", tmp_path)
    return tmp_path


def test_every_deployment_source_exists():
    assert [name for name in deployment.SOURCES if not (ROOT / name).exists()] == []


def test_the_same_sources_have_the_same_fingerprint(project: Path):
    before = deployment.fingerprint(URL, DeployOptions())
    cache = project / "functions" / "one" / "__pycache__"
    cache.mkdir()
    (cache / "handler.pyc").write_bytes(b"0")
    assert deployment.fingerprint(URL, DeployOptions()) == before


def test_changed_source_changes_the_fingerprint(project: Path):
    before = deployment.fingerprint(URL, DeployOptions())
    (project / "functions" / "one" / "handler.py").write_text("x = 2\n")
    assert deployment.fingerprint(URL, DeployOptions()) != before


def test_renamed_source_changes_the_fingerprint(project: Path):
    before = deployment.fingerprint(URL, DeployOptions())
    (project / "functions" / "one").rename(project / "functions" / "two")
    assert deployment.fingerprint(URL, DeployOptions()) != before


def test_different_database_changes_the_fingerprint(project: Path):
    assert deployment.fingerprint(URL, DeployOptions()) != deployment.fingerprint(
        URL.replace("5432", "5433"), DeployOptions()
    )


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("tuning", [DeployOptions({"LEASE_SECONDS": "60"}), DeployOptions(timeout=20)])
def test_different_tuning_changes_the_fingerprint(tuning: DeployOptions):
    assert deployment.fingerprint(URL, tuning) != deployment.fingerprint(URL, DeployOptions())


def test_state_stores_the_deployment_tuning(tmp_path: Path):
    tuning = DeployOptions({"LEASE_SECONDS": "60"}, 20)
    state = State(Emulator(1, 0, 1, ""), 1, 5432, URL)
    assert state.tuning == DeployOptions()
    state.deployed("abc", 1, {}, tuning).save(CloudPaths(tmp_path))
    loaded = State.load(CloudPaths(tmp_path))
    assert loaded is not None
    assert loaded.tuning == tuning


def test_missing_cdk_error_suggests_make_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deployment, "COMMAND_LINE", tmp_path / "cdk")
    with pytest.raises(CloudError, match="make setup"):
        deployment.deploy(
            CloudPaths(tmp_path),
            Emulator(1, 0, 1, ""),
            URL,
            DeployOptions(),
            Progress(lambda _: None, lambda *_: None),
        )


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("some words\n❌  counterfoil failed: Error: no bucket.\nmore", "counterfoil failed: Error: no bucket."),
        (
            "a | CREATE_FAILED | \x1b[31mAWS::SQS::Queue\x1b[39m Refused\n",
            "a | CREATE_FAILED | AWS::SQS::Queue Refused.",
        ),
        ("only this\n", "only this."),
        (
            "Traceback (most recent call last):\njsii.errors.JavaScriptError:\n  deep\n\n"
            "RuntimeError: JSIIError: the cache is writable by others\n"
            "python -m infra: Subprocess exited with error 1\n",
            "JSIIError: the cache is writable by others.",
        ),
        ("", "no reason was given."),
    ],
)
def test_deployment_failure_reason_is_extracted(output: str, reason: str):
    assert deployment._reason(output) == reason
