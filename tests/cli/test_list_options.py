"""List options before a subcommand are refused, not ignored."""

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import clusters, documents, review
from cli.failures import UsageError


@pytest.mark.parametrize(("app", "command"), [(clusters.app, "show"), (documents.app, "delete"), (review.app, "show")])
@pytest.mark.parametrize("before", [("--json",), ("--tenant", "acme", "--json")])
def test_list_option_before_a_subcommand_is_refused(app: typer.Typer, command: str, before: tuple[str, ...]) -> None:
    error = CliRunner().invoke(app, [*before, command, "4f1c"]).exception
    assert isinstance(error, UsageError)
    named = ", ".join(word for word in before if word.startswith("--"))
    assert str(error).startswith(f"{named} before '{command}' applies to the list of ")
