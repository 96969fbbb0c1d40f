"""Write migrations/schema.sql, the result of all migrations.

Run it with `python -m tools.schema`.
"""

import re
import subprocess
from pathlib import Path

from cli.local.postgres import installed_programs, temporary_server
from functions.migrate.runner import apply

MIGRATIONS = Path(__file__).parent.parent / "migrations"
SCHEMA = MIGRATIONS / "schema.sql"
HEADER = """\
-- The result of all migrations, dumped by PostgreSQL 18. Written by `python -m tools.schema`; do not edit.
-- Everything here belongs to counterfoil_owner.

"""
_NOISE = re.compile(r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def schema(url: str) -> str:
    """Return pg_dump's output without comments and session settings.

    The migration runner's table is excluded.
    """
    dump = subprocess.run(
        [installed_programs() / "pg_dump", "--schema-only", "--no-owner", "--exclude-table=applied_migration", url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return _BLANK_LINES.sub("\n\n", _NOISE.sub("", dump)).strip() + "\n"


def sum_of_migrations() -> str:
    """Apply all migrations to a temporary database and return its schema."""
    with temporary_server() as server:
        url = server.create_database("schema")
        apply(url, MIGRATIONS)
        return HEADER + schema(url)


if __name__ == "__main__":
    SCHEMA.write_text(sum_of_migrations())
