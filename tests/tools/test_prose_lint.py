"""The prose linter finds texts in all kinds of files and flags banned phrases."""

import subprocess
from pathlib import Path

import pytest
import typer

from tools import prose_lint
from tools.prose_lint import Text, check, tracked, violations


def rules(value: str, kind: str = "docstring") -> list[str]:
    return [violation.rule for violation in violations(Text(kind, 1, value))]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("Send the message anew.", "archaic"),  # prose: ignore
        ("The caller is told about the failure.", "told"),  # prose: ignore
        ("Store what is needed for a retry.", "riddle"),  # prose: ignore
        ("Send it if nobody has sent it.", "somebody"),  # prose: ignore
        ("Return False if the file is no document.", "negation"),  # prose: ignore
        ("Each tenant has a queue of its own.", "possess"),  # prose: ignore
        ("Return True while a deployment is under way.", "idiom"),  # prose: ignore
        ("The message is to be sent again.", "modal"),  # prose: ignore
        ("The user gets his mail.", "pronoun"),  # prose: ignore
        ("What the queue holds.", "opening"),
        ("Return " + "a very long first line " * 5, "first-line"),
        ("Return " + "word " * 40, "long-sentence"),
        ("If it fails, when it ends, while it runs, because it must.", "subclauses"),  # prose: ignore
    ],
)
def test_phrase_violates_its_rule(value: str, rule: str) -> None:
    assert rule in rules(value)


@pytest.mark.parametrize(
    "value",
    [
        "Return the messages that are due within a minute.",
        "Return the value of `anew`, see [the guide](anew.md) and https://example.com/anew.",
        "Return the row.\n\n    >>> what is anew\n",
        "Raises:\n    ValueError: the file is empty\n    TypeError: the file is a folder\n" * 5,
    ],
)
def test_plain_english_and_code_pass(value: str) -> None:
    assert rules(value) == []


@pytest.mark.parametrize(
    ("value", "is_flagged"),
    [
        ("The message is sent anew.", True),  # prose: ignore
        ("sent anew", False),  # too short to be a sentence
        ("SELECT what is WHERE the id is anew", False),
        (r"(?:the|a) \bis anew to", False),
    ],
)
def test_only_sentences_among_strings_are_checked(value: str, *, is_flagged: bool) -> None:
    assert bool(rules(value, "string")) == is_flagged


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("test", "test_retry_sends_the_message", []),
        ("test", "test_whoever_waits_is_told", ["test-name"]),
        ("test", "test_" + "_".join(["word"] * 13), ["test-name-long"]),
        ("name", "DeadLetterFilter", []),
        ("name", "Wish", ["coined-name"]),
    ],
)
def test_names_are_checked(kind: str, value: str, expected: list[str]) -> None:
    assert rules(value, kind) == expected


@pytest.mark.parametrize(
    ("name", "source", "lines"),
    [
        ("a.py", '"""Sent anew."""\n\n\nX = 1\n"""Sent\nanew."""\n', [1, 6]),
        ("a.py", "# Sent again.\n# Then it is sent\n# anew.\n", [3]),
        ("a.py", "x = 1  # sent anew\n", [1]),
        ("a.py", "def f() -> None:\n    raise ValueError(f'The message {1} is sent anew.')\n", [2]),  # prose: ignore
        ("a.sql", "SELECT 1;\n-- Sent anew.\n", [2]),  # prose: ignore
        ("a.md", "# Title\n\n| a | The message is sent anew |\n", [3]),
        ("a.md", "```\nanew anew anew anew\n```\n", []),
        ("a.md", "```\nrun  # sends the message anew\n```\n", [2]),  # prose: ignore
        ("a.tsx", "// Sent anew.\nconst text = 'The message is sent anew.';\n", [1, 2]),  # prose: ignore
        ("a.tsx", "<p>The message is sent anew.</p>\n", [1]),  # prose: ignore
        ("a.py", "# Sent anew.  prose: ignore\n", []),
    ],
)
def test_violations_report_their_line(name: str, source: str, lines: list[int], tmp_path: Path) -> None:
    (tmp_path / name).write_text(source)
    assert [violation.line for violation in check(tmp_path / name)] == lines


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Git work tree with a tracked, an untracked and a skipped file."""
    (tmp_path / "docs").mkdir()
    for name in ("docs/a.md", "docs/untracked.md", "docs/api.md"):
        (tmp_path / name).write_text("The message is sent anew.\n")  # prose: ignore
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "docs/a.md", "docs/api.md"], cwd=tmp_path, check=True)
    monkeypatch.setattr(prose_lint, "ROOT", tmp_path)
    return tmp_path


def test_only_tracked_files_are_checked(repository: Path) -> None:
    assert tracked(repository, []) == ["docs/a.md"]
    assert tracked(repository, ["functions"]) == []


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (False, "docs/a.md:1: archaic: 'anew': again, a second time\n"),
        (True, "docs           1 violations, 1000.00 per 1,000 lines\n"),
    ],
)
def test_violations_fail_the_command(
    repository: Path, capsys: pytest.CaptureFixture[str], expected: str, *, count: bool
) -> None:
    with pytest.raises(typer.Exit) as raised:
        prose_lint.main(count=count)
    assert (raised.value.exit_code, capsys.readouterr().out) == (1, expected)


def test_clean_files_pass_the_command(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "docs" / "a.md").write_text("The message is sent again.\n")
    with pytest.raises(typer.Exit) as raised:
        prose_lint.main()
    assert (raised.value.exit_code, capsys.readouterr().out) == (0, "")
