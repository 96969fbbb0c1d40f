"""Audit trail: the hash chain does not fork and reveals tampering."""

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.commands.audit import ChainError
from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, Database
from counterfoil.errors import RejectedStatementError
from tests.dead_letters.audit_trail import first_broken_entry
from tests.dead_letters.dead_letter_factory import NOON

Record = Callable[..., int]


def operation(action: str = "resolved", **fields: object) -> AuditRecord:
    return AuditRecord(actor="kim", action=action, targets=[str(uuid4())], at=NOON, **fields)  # type: ignore[arg-type]


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def record(database: Database, tenant_id: UUID) -> Record:
    """`record(operation, tenant)` adds an entry in a separate transaction."""

    def append(change: AuditRecord | None = None, tenant: UUID | None = None) -> int:
        with database.tenant(tenant or tenant_id) as connection:
            return audit.record(connection, tenant or tenant_id, change or operation())

    return append


@pytest.fixture
def verify(database: Database, tenant_id: UUID) -> Callable[[], ChainError | None]:
    def verify_chain() -> ChainError | None:
        with database.tenant(tenant_id) as connection:
            return first_broken_entry(connection, tenant_id)

    return verify_chain


Verify = Callable[[], ChainError | None]


@pytest.fixture
def tamper(admin: Connection) -> Callable[[str], None]:
    """`tamper(statement)` runs a statement as a superuser without triggers."""

    def execute(statement: str) -> None:
        with admin.transaction():
            admin.execute("SET LOCAL session_replication_role = replica")
            admin.execute(statement.encode())

    return execute


def test_entry_records_change_without_note_text(record: Record, database: Database, tenant_id: UUID):
    change = operation(
        note="Acme's IBAN was wrong", version_before=3, version_after=4, detail={"revision": 2, "names": ["ä", "b"]}
    )
    record(change)
    with database.tenant(tenant_id) as connection:
        [entry] = audit.page(connection, tenant_id, limit=20)
    assert (entry.number, entry.actor, entry.action, entry.recorded_at) == (1, "kim", "resolved", NOON)
    assert (entry.targets, entry.version_before, entry.version_after) == (change.targets, 3, 4)
    assert entry.detail == {"revision": 2, "names": ["ä", "b"]}
    assert entry.note_hash is not None
    assert "IBAN" not in repr(entry)


@pytest.mark.parametrize("is_assigned", [True, False])
def test_note_hash_is_keyed_by_salt(is_assigned: bool, admin: Connection, database: Database, tenant_id: UUID):
    tenant = tenant_id if is_assigned else None
    with database.tenant(tenant_id) if is_assigned else database.delivery() as connection:
        audit.record(connection, tenant, operation(note="typo"))
        [entry] = audit.page(connection, tenant, limit=1)
    salt_query = "SELECT audit_salt FROM tenant" if is_assigned else "SELECT salt FROM audit_salt_global"
    [(salt,)] = admin.execute(salt_query).fetchall()
    assert len(salt) == 32
    assert entry.note_hash == hmac.digest(salt, b"typo", "sha256")


def test_pages_start_with_newest_entries(record: Record, database: Database, tenant_id: UUID):
    for _ in range(5):
        record()
    with database.tenant(tenant_id) as connection:
        first = audit.page(connection, tenant_id, limit=2)
        second = audit.page(connection, tenant_id, limit=20, before=first[-1].number)
    assert [entry.number for entry in (*first, *second)] == [5, 4, 3, 2, 1]


def test_entries_are_filtered_by_target(record: Record, database: Database, tenant_id: UUID):
    for targets in (["a"], ["b", "c"], ["b"]):
        record(replace(operation(), targets=targets))
    with database.tenant(tenant_id) as connection:
        pages = [audit.page(connection, tenant_id, limit=20, target=name) for name in "abcd"]
        page_before = audit.page(connection, tenant_id, limit=20, target="b", before=3)
    assert [[entry.number for entry in page] for page in pages] == [[1], [3, 2], [2], []]
    assert [entry.number for entry in page_before] == [2]


def test_intact_chain_verifies(record: Record, verify: Verify, make_tenant: Callable[..., UUID]):
    assert verify() is None
    other = make_tenant("other")
    for number in range(1, 8):
        assert record(operation(version_after=number)) == number
        record(tenant=other)
    assert verify() is None


def test_verification_ignores_time_zone(record: Record, verify: Verify, admin: Connection):
    (name,) = admin.execute("SELECT current_database()").fetchall()[0]
    record()
    admin.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Kathmandu'".encode())
    assert verify() is None


def test_concurrent_entries_form_one_chain(record: Record, verify: Verify, database_url: str, tenant_id: UUID):
    pooled_database = Database(database_url, max_connections=8)

    def append(_: int) -> int:
        with pooled_database.tenant(tenant_id) as connection:
            number = audit.record(connection, tenant_id, operation())
            connection.execute(
                "SELECT txid_current()"
            )  # a further statement in the transaction while other threads wait
            return number

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(append, range(80)))
    pooled_database.close()
    assert sorted(numbers) == list(range(1, 81))
    assert verify() is None


def test_rollback_leaves_no_gap(record: Record, verify: Verify, database: Database, tenant_id: UUID):
    record()

    def fail() -> None:
        with database.tenant(tenant_id) as connection:
            audit.record(connection, tenant_id, operation())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert record() == 2
    assert verify() is None


def test_unassigned_entries_have_separate_chain(record: Record, database: Database, tenant_id: UUID):
    record()
    for number in (1, 2):
        with database.delivery() as connection:
            assert audit.record(connection, None, operation()) == number
    with database.delivery() as connection:
        assert first_broken_entry(connection, None) is None
        assert len(audit.page(connection, None, limit=20)) == 2
        assert audit.page(connection, tenant_id, limit=20) == []


@pytest.mark.parametrize(
    "forged",
    [
        "(3, decode(repeat('00', 32), 'hex'))",  # follows an unknown entry
        "(3, (SELECT hash FROM audit_entry WHERE number = 1))",  # forks the chain
        "(4, (SELECT hash FROM audit_entry WHERE number = 2))",  # leaves a gap
        "(1, NULL)",  # starts a second chain
    ],
)
def test_database_rejects_entry_not_following_last(forged: str, record: Record, database: Database, tenant_id: UUID):
    record()
    record()
    with pytest.raises(RejectedStatementError), database.tenant(tenant_id) as connection:
        connection.execute(
            f"""INSERT INTO audit_entry (tenant_id, recorded_at, actor, action, targets, hash, number, previous_hash)
            SELECT %s, now(), 'kim', 'resolved', '{{}}', sha256('entry'), v.* FROM (VALUES {forged}) AS v""".encode(),
            [tenant_id],
        )


@pytest.mark.parametrize("role", [None, "counterfoil_owner", "counterfoil_worker", "counterfoil_maintenance"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entry SET actor = 'mallory'",
        "DELETE FROM audit_entry",
        "TRUNCATE audit_entry",
        "DELETE FROM audit_head",
    ],
)
def test_audit_trail_cannot_be_changed_by_any_role(
    statement: str, role: str | None, record: Record, verify: Verify, admin: Connection
):
    record()
    if role is not None:
        admin.execute(f"SET ROLE {role}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        admin.execute(statement.encode())
    assert verify() is None


CHAIN_LENGTH = 6
CHANGES = (
    "actor = 'mallory'",
    "action = 'ignored'",
    "targets = '{elsewhere}'",
    "recorded_at = recorded_at + interval '1 microsecond'",
    "version_before = 8",
    "version_after = NULL",
    "note_hash = sha256('another')",
    "detail = '{\"revision\": 9}'",
    "hash = sha256('another')",
    "previous_hash = sha256('another')",
    "tenant_id = gen_random_uuid()",
)


def tampering_statements(kind: str, assignment: str, position: int, end: int, condition: str) -> list[str]:
    """Return statements that tamper with a chain at `position`.

    They change, remove, insert or move an entry, depending on `kind`. Entries are removed up to `end`.
    """
    copied_columns = (
        "recorded_at, actor, action, targets, version_before, version_after, note_hash, detail, hash, sha256('new')"
    )
    if kind == "changed":
        return [f"UPDATE audit_entry SET {assignment} {condition} = {position}"]
    if kind == "removed":
        return [f"DELETE FROM audit_entry {condition} BETWEEN {position} AND {end}"]
    if kind == "inserted":
        return [
            f"UPDATE audit_entry SET number = number + 100 {condition} >= {position}",
            f"INSERT INTO audit_entry SELECT tenant_id, number + 1, {copied_columns} "
            f"FROM audit_entry {condition} = {position - 1}",
            f"UPDATE audit_entry SET number = number - 99 {condition} > 100",
        ]
    return [  # moved after the next entry
        f"UPDATE audit_entry SET number = 100 {condition} = {position}",
        f"UPDATE audit_entry SET number = {position} {condition} = {position + 1}",
        f"UPDATE audit_entry SET number = {position + 1} {condition} = 100",
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["changed", "removed", "inserted", "moved"]),
    assignment=st.sampled_from(CHANGES),
    position=st.integers(2, CHAIN_LENGTH - 1),
    offset=st.integers(0, CHAIN_LENGTH),
)
def test_tampering_is_detected_at_its_position(
    kind: str,
    assignment: str,
    position: int,
    offset: int,
    record: Record,
    tamper: Callable[[str], None],
    database: Database,
    make_tenant: Callable[..., UUID],
):
    tenant = make_tenant(str(uuid4()))
    for number in range(CHAIN_LENGTH):
        record(operation(note="why", version_before=1, version_after=2, detail={"revision": number}), tenant)
    for statement in tampering_statements(
        kind, assignment, position, position + offset, f"WHERE tenant_id = '{tenant}' AND number"
    ):
        tamper(statement)
    with database.tenant(tenant) as connection:
        result = first_broken_entry(connection, tenant)
    assert result is not None
    assert result.number == position


@pytest.mark.parametrize("end", [1, 3, 5])
def test_deletion_of_first_entries_is_detected(end: int, record: Record, verify: Verify, tamper: Callable[[str], None]):
    for _ in range(5):
        record()
    tamper(f"DELETE FROM audit_entry WHERE number <= {end}")
    result = verify()
    assert result is not None
    assert result.number == 1


def test_forged_entry_with_valid_hash_is_detected(
    record: Record, verify: Verify, tamper: Callable[[str], None], database: Database, tenant_id: UUID
):
    record()
    with database.tenant(tenant_id) as connection:
        [last_entry] = audit.page(connection, tenant_id, limit=1)
    forged = audit.AuditEntry(2, NOON + timedelta(1), "kim", "ignored", [], None, None, None, {}, last_entry.hash, b"")
    tamper(
        "INSERT INTO audit_entry (tenant_id, number, recorded_at, actor, action, targets, previous_hash, hash) VALUES"
        f" ('{tenant_id}', 2, '{forged.recorded_at}', 'kim', 'ignored', '{{}}', '\\x{last_entry.hash.hex()}',"
        f" '\\x{forged.expected_hash(tenant_id).hex()}')"
    )
    result = verify()
    assert result is not None
    assert result.number == 2
