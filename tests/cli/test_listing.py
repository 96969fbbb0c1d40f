"""A list is asked for by no command behind it; its options before a command are refused, never left unheard."""

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import clusters, documents, review
from cli.failures import UsageError


@pytest.mark.parametrize(("app", "command"), [(clusters.app, "show"), (documents.app, "delete"), (review.app, "show")])
@pytest.mark.parametrize("before", [("--json",), ("--tenant", "acme", "--json")])
def test_an_option_of_a_list_before_a_command_is_refused_by_its_name(
    app: typer.Typer, command: str, before: tuple[str, ...]
) -> None:
    error = CliRunner().invoke(app, [*before, command, "4f1c"]).exception
    assert isinstance(error, UsageError)
    named = ", ".join(word for word in before if word.startswith("--"))
    assert str(error).startswith(f"{named} before '{command}' would mean the list of ")
