"""Changes requested by commands have the database's time.

The API makes the changes, so the process's clock does not matter.
"""

from pathlib import Path

import cli

PROCESS_CLOCK = {"chat.py", "dead_letters.py"}
"""Modules that use the process's clock to show an age."""


def test_commands_take_the_time_from_the_database() -> None:
    modules = Path(cli.__file__).parent.rglob("*.py")

    assert {module.name for module in modules if "datetime.now(" in module.read_text()} == PROCESS_CLOCK
