"""The functions' locked dependencies."""

import re
from pathlib import Path

from infra import dependencies
from infra.dependencies import AWS_SERVICES, REQUIREMENTS, exported

ROOT = Path(__file__).parents[2]


def test_layer_requirements_match_the_lock_file():
    assert REQUIREMENTS.read_text() == exported(), "run python -m infra.dependencies"


def test_every_requirement_is_pinned_and_hashed():
    requirements = re.split(r"\n(?! )", REQUIREMENTS.read_text().strip())

    assert requirements
    for requirement in requirements:
        assert re.match(r"[\w.-]+==", requirement)
        assert "--hash=sha256:" in requirement


def test_layer_keeps_definitions_of_called_aws_services():
    code = [path.read_text() for folder in ("functions", "layers/shared") for path in (ROOT / folder).rglob("*.py")]
    called = {name for text in code for name in re.findall(r"""\bclient\(\s*["']([\w-]+)["']""", text)}

    assert called
    assert called <= AWS_SERVICES


def test_trim_removes_files_unused_at_run_time(tmp_path: Path):
    kept = ["botocore/data/sqs/service.json", "botocore/data/endpoints.json", "a/code.py", "a-1.dist-info/METADATA"]
    dropped = [
        "botocore/data/ec2/service.json",
        "bin/tool",
        "a/tests/test_code.py",
        "a/code.pyi",
        "a-1.dist-info/RECORD",
    ]
    for name in kept + dropped:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    dependencies.trim(tmp_path)

    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == set(kept)


def test_outdated_requirements_report_the_update_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dependencies, "REQUIREMENTS", tmp_path / "requirements.txt")
    dependencies.REQUIREMENTS.write_text("boto3\n")

    assert dependencies.main(["--check"]) == 1
    assert "run python -m infra.dependencies" in capsys.readouterr().err
    assert dependencies.main([]) == 0
    assert dependencies.main(["--check"]) == 0
