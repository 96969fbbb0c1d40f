"""Migrations run while the functions still have the code of before: they take away nothing that it uses."""

from pathlib import Path
from shutil import copy

import psycopg
import pytest

from counterfoil.db import Connection
from functions.migrate.runner import apply
from tests.migrations.test_runner import NAMES, folder, url, write
from tools.schema import MIGRATIONS

__all__ = ["folder", "url"]

LAST_WITHOUT = "0022.same_message_id"
"""Behind it the rule holds. What the code before a migration does without already, comes into GIVEN_UP."""
GIVEN_UP: dict[str, set[str]] = {
    # No release is deployed yet, so no older code runs on these.
    "0065.task_idempotency_key": {"task needs idempotency_key"},
    "0077.read_allowance": {"change_allowance is unique by (tenant_id, user_hash) NULLS NOT DISTINCT: no more"},
    "0080.tenant_user_ids": {
        "profile needs external_id",
        "profile_block needs blocked_external_id",
        *(
            f"{role} may call packed_person(uuid,date,text,text[],integer,integer,double precision,double precision,"
            "integer,real[]): no more"
            for role in ("counterfoil_worker", "counterfoil_delivery", "counterfoil_keeper")
        ),
    },
    # The older code inserts with ON CONFLICT DO NOTHING, which takes any unique index; the new one is as strict.
    "0070.upload_listing": {
        "acquisition_job is unique by (bucket, key, sequencer, tenant_id) NULLS NOT DISTINCT: no more"
    },
}
"""By migration, in the words of `broken`."""

_ROLES = "(VALUES ('counterfoil_worker'), ('counterfoil_delivery'), ('counterfoil_keeper')) AS role (name)"
_RELATIONS = "pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE '\\_yoyo%'"
_COLUMNS = f"""
pg_attribute a JOIN {_RELATIONS} AND a.attrelid = c.oid AND c.relkind IN ('r', 'v') AND a.attnum > 0
    AND NOT a.attisdropped
""".replace("WHERE", "ON")
_THERE = f"""
SELECT format('%s.%s is %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod)) FROM {_COLUMNS}
UNION ALL
SELECT format('%s may %s %s.%s', role.name, lower(privilege), c.relname, a.attname)
FROM {_ROLES} CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS privilege CROSS JOIN {_COLUMNS}
WHERE has_column_privilege(role.name, c.oid, a.attnum, privilege)
UNION ALL
SELECT format('%s may delete %s', role.name, c.relname) FROM {_ROLES}, {_RELATIONS}
    AND c.relkind = 'r' AND has_table_privilege(role.name, c.oid, 'DELETE')
UNION ALL
SELECT format('%s may count %s', role.name, c.relname) FROM {_ROLES}, {_RELATIONS}
    AND c.relkind = 'S' AND has_sequence_privilege(role.name, c.oid, 'USAGE')
UNION ALL
SELECT format('%s may call %s', role.name, p.oid::regprocedure) FROM {_ROLES}, pg_proc p
WHERE p.pronamespace = 'public'::regnamespace AND p.prorettype <> 'trigger'::regtype
    AND has_function_privilege(role.name, p.oid, 'EXECUTE')
UNION ALL
SELECT format('%s sees %s for %s by %s', unnest(roles), tablename, lower(cmd), policyname) FROM pg_policies
WHERE schemaname = 'public' AND permissive = 'PERMISSIVE'
UNION ALL
SELECT format('%s is unique by %s', c.relname, split_part(pg_get_indexdef(i.indexrelid), ' USING btree ', 2))
FROM pg_index i, {_RELATIONS} AND i.indrelid = c.oid AND i.indisunique
"""
_NEEDS = f"""
SELECT c.relname, a.attname FROM {_COLUMNS}
WHERE c.relkind = 'r' AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
"""
_TABLES = f"SELECT c.relname FROM {_RELATIONS} AND c.relkind = 'r'"


class Schema:
    """What code can rely on, as a catalog tells it: not what a check, a trigger or a policy's expression refuses."""

    def __init__(self, connection: Connection) -> None:
        """Read it."""
        self.there = {word for (word,) in connection.execute(_THERE.encode())}
        self.tables = {name for (name,) in connection.execute(_TABLES.encode())}
        self.needs = set(connection.execute(_NEEDS.encode()))

    def broken(self, after: "Schema") -> set[str]:
        """What it gave, and another one gives no more, in words."""
        needed = {f"{table} needs {name}" for table, name in after.needs - self.needs if table in self.tables}
        return needed | {f"{word}: no more" for word in self.there - after.there}


def schema(url: str) -> Schema:
    with psycopg.connect(url) as connection:
        return Schema(connection)


def test_a_migration_takes_nothing_away_that_the_code_before_it_uses(url: str, tmp_path: Path) -> None:
    """What is needed no more goes in a later release, when no code uses it; see docs/operations.md."""
    copy(MIGRATIONS / "roles.sql", tmp_path)
    first = NAMES.index(LAST_WITHOUT) + 1
    for name in NAMES[:first]:
        copy(MIGRATIONS / f"{name}.sql", tmp_path)
    apply(url, tmp_path)
    broken: dict[str, set[str]] = {}
    before = schema(url)
    for name in NAMES[first:]:
        copy(MIGRATIONS / f"{name}.sql", tmp_path)
        apply(url, tmp_path)
        after = schema(url)
        broken[name] = before.broken(after)
        before = after

    assert {name: found for name, found in broken.items() if found} == GIVEN_UP


@pytest.mark.parametrize(
    ("up", "breaks"),
    [
        ("DROP TABLE work", "work.id is integer: no more"),
        ("ALTER TABLE work RENAME TO job", "work.id is integer: no more"),
        ("ALTER TABLE work RENAME id TO number", "work.id is integer: no more"),
        ("ALTER TABLE work ALTER id TYPE bigint", "work.id is integer: no more"),
        ("ALTER TABLE work ADD note text NOT NULL", "work needs note"),
        ("ALTER TABLE work ALTER owner SET NOT NULL", "work needs owner"),
        ("REVOKE UPDATE (owner) ON work FROM counterfoil_worker", "counterfoil_worker may update work.owner: no more"),
        ("REVOKE DELETE ON work FROM counterfoil_worker", "counterfoil_worker may delete work: no more"),
        ("DROP POLICY all_rows ON work", "counterfoil_worker sees work for all by all_rows: no more"),
        ("ALTER TABLE work DROP CONSTRAINT work_pkey", "work is unique by (id): no more"),
        ("DROP FUNCTION twice(int)", "counterfoil_worker may call twice(integer): no more"),
    ],
)
def test_what_the_code_before_a_migration_needs_is_missed(url: str, folder: Path, up: str, breaks: str) -> None:
    made = """
        CREATE TABLE work (id int PRIMARY KEY, owner text);
        CREATE POLICY all_rows ON work TO counterfoil_worker USING (true);
        GRANT SELECT, INSERT, DELETE, UPDATE (owner) ON work TO counterfoil_worker;
        CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql AS 'SELECT 2 * $1';
    """
    write(folder, "0002.second", f"-- depends: 0001.first\n{made}", None)
    apply(url, folder)
    before = schema(url)
    write(folder, "0003.third", f"-- depends: 0002.second\n{up};", None)
    apply(url, folder)

    assert breaks in before.broken(schema(url))


def test_what_is_only_added_breaks_nothing(url: str, folder: Path) -> None:
    apply(url, folder)
    before = schema(url)
    up = """
        ALTER TABLE first ADD note text NOT NULL DEFAULT '';
        CREATE TABLE second (id int PRIMARY KEY, owner text NOT NULL);
        GRANT SELECT ON first, second TO counterfoil_worker;
    """
    write(folder, "0002.second", f"-- depends: 0001.first\n{up}", None)
    apply(url, folder)

    assert before.broken(schema(url)) == set()
