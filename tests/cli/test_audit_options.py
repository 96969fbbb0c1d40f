"""The options --by and --reason, whose values are stored in the audit trail."""

import getpass

import pytest
import typer
from typer.testing import CliRunner

from cli.client import By, Reason
from cli.failures import UsageError

app = typer.Typer()


@app.command()
def record(*, by: By, reason: Reason = None) -> None:
    typer.echo(f"{by}: {reason}")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    if result.exception is not None:
        raise result.exception
    return result.output.strip()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--by", ""), "--by must be 1 to 254 printable characters"),
        (("--by", " "), "--by must be"),
        (("--by", "x" * 255), "--by must be"),
        (("--by", "ann", "--reason", ""), "--reason must be 1 to 2000 printable characters"),
        (("--by", "ann", "--reason", "x" * 2001), "--reason must be"),
        (("--by", "ann", "--reason", "one\ntwo"), "on one line"),
    ],
)
def test_invalid_by_or_reason_is_refused(words: tuple[str, ...], message: str):
    with pytest.raises(UsageError, match=message):
        run(*words)


def test_by_defaults_to_the_system_user(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert run("--reason", "not ours") == "ann: not ours"


@pytest.mark.parametrize("error", [KeyError("uid not found: 4711"), OSError("No username set in the environment")])
def test_unknown_system_user_requires_by(error: Exception, monkeypatch: pytest.MonkeyPatch):
    def unknown() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", unknown)
    with pytest.raises(UsageError, match="Set it with --by"):
        run()
    assert run("--by", "ann") == "ann: None"
