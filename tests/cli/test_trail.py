"""Who does something, and why, is said in a line that the trail can keep."""

import getpass

import pytest
import typer
from typer.testing import CliRunner

from cli.client import By, Reason
from cli.failures import UsageError

app = typer.Typer()


@app.command()
def tell(*, by: By, reason: Reason = None) -> None:
    typer.echo(f"{by}: {reason}")


def called(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    if result.exception is not None:
        raise result.exception
    return result.output.strip()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--by", ""), "--by takes 1 to 254 characters"),
        (("--by", " "), "--by takes"),
        (("--by", "x" * 255), "--by takes"),
        (("--by", "ann", "--reason", ""), "--reason takes 1 to 2000 characters"),
        (("--by", "ann", "--reason", "x" * 2001), "--reason takes"),
        (("--by", "ann", "--reason", "one\ntwo"), "in one line"),
    ],
)
def test_what_the_trail_cannot_keep_is_refused_in_our_words(words: tuple[str, ...], says: str):
    with pytest.raises(UsageError, match=says):
        called(*words)


def test_without_a_name_it_is_the_user_s(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert called("--reason", "not ours") == "ann: not ours"


@pytest.mark.parametrize("error", [KeyError("uid not found: 4711"), OSError("No username set in the environment")])
def test_a_user_whom_the_system_does_not_know_is_asked(error: Exception, monkeypatch: pytest.MonkeyPatch):
    def unknown() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", unknown)
    with pytest.raises(UsageError, match="give it with --by"):
        called()
    assert called("--by", "ann") == "ann: None"
