"""The locked dependencies of the functions."""

import re
from pathlib import Path

from infra import dependencies
from infra.dependencies import AWS_SERVICES, REQUIREMENTS, exported

ROOT = Path(__file__).parents[2]


def test_the_requirements_of_the_layer_are_what_the_lock_says():
    assert REQUIREMENTS.read_text() == exported(), "run python -m infra.dependencies"


def test_every_requirement_is_pinned_and_hashed():
    requirements = re.split(r"\n(?! )", REQUIREMENTS.read_text().strip())

    assert requirements
    for requirement in requirements:
        assert re.match(r"[\w.-]+==", requirement)
        assert "--hash=sha256:" in requirement


def test_the_layer_keeps_the_description_of_every_aws_service_that_functions_call():
    code = [path.read_text() for folder in ("functions", "layers/shared") for path in (ROOT / folder).rglob("*.py")]
    called = {name for text in code for name in re.findall(r"""\bclient\(\s*["']([\w-]+)["']""", text)}

    assert called
    assert called <= AWS_SERVICES


def test_what_no_function_needs_at_run_time_is_trimmed(tmp_path: Path):
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


def test_a_file_that_is_out_of_date_is_reported_with_the_command_that_writes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dependencies, "REQUIREMENTS", tmp_path / "requirements.txt")
    dependencies.REQUIREMENTS.write_text("boto3\n")

    assert dependencies.main(["--check"]) == 1
    assert "run python -m infra.dependencies" in capsys.readouterr().err
    assert dependencies.main([]) == 0
    assert dependencies.main(["--check"]) == 0
