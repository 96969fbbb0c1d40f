"""Runs the product's SQL on a real PostgreSQL whose connections can be lost.

The product's `Database` is used unchanged, including its handling of unconfirmed commits. Only its connection pool is
replaced. All processes share one thread, so waiting for a lock would deadlock. Instead, a lock held by another
transaction is an error, and the caller continues when one of the open transactions has ended.

Triggers write a ledger in the same database and in the same transactions. The ledger records which task committed which
change.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import ExecStatus

from cli.local.postgres import Server
from counterfoil.db import IDLE_SECONDS, Database, DatabaseClock, TransactionOptions
from functions.migrate.runner import apply
from tools.simulation.faults import Fault, Faults
from tools.simulation.scheduler import Process, Scheduler

MIGRATIONS = Path(__file__).parent.parent.parent / "migrations"
DATABASE = "simulation"
WORKER, MAINTENANCE = "counterfoil_worker", "counterfoil_maintenance"

_OPEN = "BEGIN; SELECT set_config('{setting}', '{value}', true), set_config('simulation.actor', '{actor}', true)"
"""The product's first statement in one round trip, without timeouts, because timeouts use the real clock."""

# Generated ids come from a sequence, so that a seed always gives the same ids.
_LEDGER = """
CREATE SEQUENCE simulation_id;
CREATE FUNCTION simulation_uuid() RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = public AS
    $$ SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(nextval('simulation_id')), 12, '0'))::uuid $$;
CREATE TABLE simulation_ledger (
    number       bigserial PRIMARY KEY,
    actor        text,
    worker       text NOT NULL,
    work_id      uuid NOT NULL,
    old          jsonb,
    new          jsonb NOT NULL
);
CREATE TABLE simulation_effect (number bigserial PRIMARY KEY, actor text, worker text, work_id uuid, revision int);
CREATE FUNCTION simulation_note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
    old_values jsonb; new_values jsonb; prefix text := TG_ARGV[1];
BEGIN
    SELECT jsonb_object_agg(substr(key, length(prefix) + 1), value) INTO new_values FROM jsonb_each(to_jsonb(NEW))
    WHERE substr(key, length(prefix) + 1) = ANY (string_to_array(TG_ARGV[2], ',')) AND starts_with(key, prefix);
    IF TG_OP = 'UPDATE' THEN
        SELECT jsonb_object_agg(substr(key, length(prefix) + 1), value) INTO old_values FROM jsonb_each(to_jsonb(OLD))
        WHERE substr(key, length(prefix) + 1) = ANY (string_to_array(TG_ARGV[2], ',')) AND starts_with(key, prefix);
    END IF;
    IF old_values IS DISTINCT FROM new_values THEN
        INSERT INTO simulation_ledger (actor, worker, work_id, old, new)
        VALUES (current_setting('simulation.actor', true), TG_ARGV[0], NEW.id, old_values, new_values);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION simulation_effect(worker text, work_id uuid, revision int) RETURNS void LANGUAGE sql
    SECURITY DEFINER SET search_path = public AS $$
    INSERT INTO simulation_effect (actor, worker, work_id, revision)
    VALUES (current_setting('simulation.actor', true), $1, $2, $3) $$;
CREATE TABLE simulation_match (actor text, a uuid, b uuid);
CREATE FUNCTION simulation_match() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    INSERT INTO simulation_match (actor, a, b)
    VALUES (current_setting('simulation.actor', true), coalesce(NEW.document_a_id, OLD.document_a_id),
            coalesce(NEW.document_b_id, OLD.document_b_id));
    RETURN NULL;
END $$;
CREATE TRIGGER simulation_match AFTER INSERT OR UPDATE OR DELETE ON document_match
    FOR EACH ROW EXECUTE FUNCTION simulation_match();
CREATE TRIGGER simulation_note AFTER INSERT OR UPDATE ON acquisition_job
    FOR EACH ROW EXECUTE FUNCTION simulation_note('acquisition', '', '{columns}');
CREATE TRIGGER simulation_note AFTER INSERT OR UPDATE ON ingestion_job
    FOR EACH ROW EXECUTE FUNCTION simulation_note('ingestion', '', '{columns}');
CREATE TRIGGER simulation_note AFTER INSERT OR UPDATE ON document
    FOR EACH ROW EXECUTE FUNCTION simulation_note('matching', 'matching_', '{columns}');
CREATE TRIGGER simulation_note AFTER INSERT OR UPDATE ON task
    FOR EACH ROW EXECUTE FUNCTION simulation_note('tasks', '', '{columns}');
CREATE TRIGGER simulation_note AFTER INSERT OR UPDATE ON cluster_diagnostics
    FOR EACH ROW EXECUTE FUNCTION simulation_note('diagnostics', '', '{columns}');
"""
_LEDGER_COLUMNS = "status,error,attempts,revision,claim_token,lease_expires_at,next_attempt_at,send_number,dlq_returns"
_UUID_DEFAULTS = """
SELECT format('ALTER TABLE %I ALTER COLUMN %I SET DEFAULT simulation_uuid()', table_name, column_name)
FROM information_schema.columns WHERE table_schema = 'public' AND column_default LIKE 'uuidv7()%'
"""
_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'applied_migration'
"""
_SEQUENCES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'"


class Store:
    """The database and its real connections. All histories of a process share it."""

    def __init__(self, server: Server) -> None:
        """Create the database with all migrations and the ledger."""
        self._server = server
        url = server.create_database(DATABASE)
        apply(url, MIGRATIONS)
        self.admin = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self.admin.execute("ALTER SYSTEM SET autovacuum = off")
        self.admin.execute("SELECT pg_reload_conf()")
        self.admin.execute("SET plan_cache_mode = force_generic_plan")
        self.admin.execute(_LEDGER.replace("{columns}", _LEDGER_COLUMNS).encode(), prepare=False)
        for (statement,) in self.admin.execute(_UUID_DEFAULTS).fetchall():
            self.admin.execute(statement)
        self._tables = [row[0] for row in self.admin.execute(_TABLES).fetchall()]
        sequences = [row[0] for row in self.admin.execute(_SEQUENCES).fetchall()]
        deletes = "; ".join(f"DELETE FROM {table}" for table in self._tables)
        restarts = ", ".join(f"setval('{sequence}', 1, false)" for sequence in sequences)
        self._reset = (
            f"SET session_replication_role = replica; {deletes}; RESET session_replication_role; SELECT {restarts}"
        )
        self._free: dict[tuple[str, str], list[psycopg.Connection[Any]]] = {}
        self._histories = 0

    def reset(self) -> None:
        """Delete all rows and restart every sequence."""
        if self._histories % 200 == 0:
            truncate = f"TRUNCATE {', '.join(self._tables)}"  # the audit trail's trigger rejects TRUNCATE
            statements = f"SET session_replication_role = replica; {truncate}; RESET session_replication_role"
            self.admin.execute(statements.encode(), prepare=False)
        self._histories += 1
        self.admin.execute(self._reset.encode(), prepare=False)

    def acquire(self, user: str, setting: str) -> psycopg.Connection[Any]:
        """Return a real connection for a user and a setting.

        Each pair has its own connections, because PostgreSQL caches plans per session.
        """
        free = self._free.setdefault((user, setting), [])
        if free:
            return free.pop()
        connection = psycopg.connect(
            self._server.url(DATABASE, user),
            prepare_threshold=0,
            options="-c lock_timeout=1ms -c plan_cache_mode=force_generic_plan -c jit=off",
            autocommit=True,
        )
        connection.prepared_max = None
        return connection

    def release(self, user: str, setting: str, connection: psycopg.Connection[Any]) -> None:
        """Return a connection to the pool after its transaction."""
        self._free[user, setting].append(connection)

    def close(self) -> None:
        """Close every connection."""
        for connections in self._free.values():
            for connection in connections:
                connection.close()
        self.admin.close()


@dataclass
class Transactions:
    """Database state that all processes in a history share."""

    scheduler: Scheduler
    faults: Faults
    store: Store
    open: list["SimulatedConnection"] = field(default_factory=list)
    started: int = 0
    statement_times: dict[int, datetime] = field(default_factory=dict)
    """Time of each transaction's last statement."""
    committed_at: dict[int, float] = field(default_factory=dict)
    handles: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Receipt handles of the process that runs each transaction."""
    writes: int = 0
    """Number of commits."""

    def pass_time(self, nearest: float) -> float:
        """Return the earlier of `nearest` and the next idle timeout, in virtual seconds."""
        return (
            min([nearest, *(connection.last_statement_at + IDLE_SECONDS for connection in self.open)])
            if self.open
            else nearest
        )

    def time_passed(self) -> None:
        """End idle transactions."""
        for connection in list(self.open):
            if connection.last_statement_at + IDLE_SECONDS <= self.scheduler.now:
                connection.disconnect(f"idle for {IDLE_SECONDS} s")


class SimulatedPool:
    """Simulated connection pool for the product's `Database`."""

    timeout = inf

    def __init__(self, transactions: Transactions, process: Process, user: str) -> None:
        self._transactions = transactions
        self._process = process
        self._user = user

    def getconn(self, _timeout: float) -> "SimulatedConnection":
        """Return a connection, or raise if the database is unavailable."""
        transactions = self._transactions
        transactions.scheduler.point("begin")
        if (
            transactions.scheduler.now < transactions.faults.failover_until
            and transactions.scheduler.random.random() < 0.5
        ):
            transactions.scheduler.log("no connection: a failover is in progress")
            raise psycopg.OperationalError("connection refused")
        if transactions.faults.inject(Fault.NO_CONNECTION):
            raise psycopg.OperationalError("connection refused")
        return SimulatedConnection(transactions, self._process, self._user)

    def putconn(self, connection: "SimulatedConnection") -> None:
        """Release a connection."""
        connection.release()

    def close(self) -> None:
        """Do nothing, because the pool holds no connections."""


class SimulatedConnection:
    """One transaction on a real connection.

    It has the part of psycopg's interface that the product uses.
    """

    def __init__(self, transactions: Transactions, process: Process, user: str) -> None:
        self._transactions = transactions
        self._process = process
        self._user = user
        self._role = ""
        self._real: psycopg.Connection[Any] | None = None
        self._lost = False
        self._in_pipeline = False
        self._lock_seconds = 0.0
        """Lock timeout in seconds."""
        self._blocking: tuple[SimulatedConnection, ...] = ()
        self.number = 0
        self.deadline = inf
        """Virtual time at which the client stops waiting for a response."""
        self.last_statement_at = transactions.scheduler.now
        process.on_death.append(self._die)

    broken = property(lambda self: self._lost)
    closed = property(lambda self: self._lost)

    def execute(self, query: Any, params: Any = None) -> Any:
        """Execute one statement."""
        if not self._in_pipeline:
            self._transactions.scheduler.point("statement")
            self._check_connection()
            self._strike()
        assert self._real is not None
        self._transactions.statement_times[self.number] = self._transactions.scheduler.clock()
        with self._note_blockers():
            return self._real.execute(query, params)

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Send several statements together, without interleaving.

        Before the pipeline, the task may pause for a long time, and other tasks may change the rows that it has read.
        """
        scheduler = self._transactions.scheduler
        scheduler.point("pipeline")
        if scheduler.current is not None and scheduler.random.random() < 0.4:
            scheduler.sleep(scheduler.random.choice((1, 3, IDLE_SECONDS - 1)))
        self._check_connection()
        assert self._real is not None
        self._in_pipeline = True
        try:
            with self._note_blockers(), self._real.pipeline():
                yield
        finally:
            self._in_pipeline = False

    @contextmanager
    def _note_blockers(self) -> Iterator[None]:
        try:
            yield
        except pg.LockNotAvailable:
            self._transactions.scheduler.log("another transaction holds a lock")
            self._blocking = tuple(connection for connection in self._transactions.open if connection is not self)
            raise

    def begin(self, options: TransactionOptions) -> None:
        """Begin a transaction."""
        transactions = self._transactions
        setting, value = options.setting, options.value
        self._lock_seconds = options.lock_seconds
        self._role = f"{setting}={value}" if setting == "role" else setting
        self._real = transactions.store.acquire(self._user, self._role)
        transactions.started += 1
        self.number = transactions.started
        transactions.handles[self.number] = self._process.handles
        transactions.open.append(self)
        self._check_connection()
        task = transactions.scheduler.current
        actor = f"{task.number if task else 0}:{self.number}"
        _exchange(self._real, _OPEN.format(setting=setting, value=value, actor=actor))

    def _check_connection(self) -> None:
        self.last_statement_at = self._transactions.scheduler.now
        if self._lost:
            raise psycopg.OperationalError("the connection is lost")

    def _strike(self) -> None:
        transactions = self._transactions
        if transactions.scheduler.now < transactions.faults.failover_until:
            raise pg.ReadOnlySqlTransaction("cannot execute in a read-only transaction")
        if transactions.faults.inject(Fault.DEADLOCK):
            raise pg.DeadlockDetected("deadlock detected")
        if transactions.faults.inject(Fault.SERIALIZATION):
            raise pg.SerializationFailure("could not serialize access")
        if transactions.faults.inject(Fault.CONNECTION_LOST):
            self.disconnect("during a statement")
            raise psycopg.OperationalError("the connection was lost")
        if transactions.faults.inject(Fault.HUNG):
            self._hang()

    def _hang(self) -> None:
        """Wait until the client's deadline. The server ends the idle transaction earlier."""
        scheduler, faults = self._transactions.scheduler, self._transactions.faults
        faults.locked_until = max(faults.locked_until, scheduler.now + IDLE_SECONDS)
        assert scheduler.current is not None
        self._process.hung[scheduler.current.name] = scheduler.now
        scheduler.sleep(self.deadline - scheduler.now)
        del self._process.hung[scheduler.current.name]
        self.disconnect("no response")
        raise psycopg.OperationalError("no response before the deadline")

    def commit(self) -> None:
        """Commit. A fault may lose the connection before or after the commit."""
        transactions = self._transactions
        transactions.scheduler.point(f"commit #{self.number}")
        self._check_connection()
        assert self._real is not None
        if transactions.faults.inject(Fault.SERIALIZATION):
            raise pg.SerializationFailure("could not serialize access at commit")
        if transactions.faults.inject(Fault.LOST_BEFORE_COMMIT):
            self.disconnect("before its commit")
            raise psycopg.OperationalError("the connection was lost")
        _exchange(self._real, "COMMIT")
        transactions.writes += 1
        transactions.committed_at[self.number] = transactions.scheduler.now
        transactions.scheduler.log(f"COMMITTED #{self.number}")
        self._end()
        if transactions.faults.inject(Fault.LOST_AFTER_COMMIT):
            self._lost = True
            transactions.scheduler.log(f"the connection of #{self.number} is lost after its commit")
            raise psycopg.OperationalError("the connection was lost")
        transactions.scheduler.point(f"after commit #{self.number}")

    def rollback(self) -> None:
        """Roll back.

        After a lock error, usually wait until one of the other open transactions has ended.
        """
        if self._lost:
            raise psycopg.OperationalError("the connection is lost")
        if self._real is not None:
            _exchange(self._real, "ROLLBACK")
            self._end()
        blockers, scheduler = (
            [connection for connection in self._blocking if connection in self._transactions.open],
            self._transactions.scheduler,
        )
        if blockers and scheduler.random.random() < 0.8:
            scheduler.wait(
                lambda: any(connection not in self._transactions.open for connection in blockers), self._lock_seconds
            )

    def close(self) -> None:
        """Close the connection."""
        self.disconnect("closed")

    def disconnect(self, reason: str) -> None:
        """Lose the connection. The server rolls back its transaction."""
        if self._real is not None:
            self._transactions.scheduler.log(f"the connection of #{self.number} is lost: {reason}")
            _exchange(self._real, "ROLLBACK")
            self._end()
        self._lost = True

    def release(self) -> None:
        """Roll back an open transaction and return the real connection."""
        if self._real is not None:
            _exchange(self._real, "ROLLBACK")
            self._end()
        if self._die in self._process.on_death:
            self._process.on_death.remove(self._die)

    def _end(self) -> None:
        if self._real is not None:
            self._transactions.open.remove(self)
            self._transactions.store.release(self._user, self._role, self._real)
            self._real = None

    def _die(self) -> None:
        if self._real is not None:
            _exchange(self._real, "ROLLBACK")
            self._end()
        self._lost = True


def _exchange(connection: psycopg.Connection[Any], statements: str) -> None:
    """Run the simulation's own statements in one round trip."""
    result = connection.pgconn.exec_(statements.encode())
    if result.status == ExecStatus.FATAL_ERROR:
        raise pg.error_from_result(result)


class SimulatedDatabase(Database):
    """The product's `Database` on simulated connections."""

    def __init__(self, transactions: Transactions, process: Process, user: str = WORKER) -> None:
        self._pool: Any = SimulatedPool(transactions, process, user)
        self._transactions = transactions
        self.clock = DatabaseClock(lambda: transactions.scheduler.clock() + process.clock_ahead)

    def _begin(self, connection: Any, options: TransactionOptions) -> None:
        connection.begin(options)
        self.clock.set(self._transactions.scheduler.clock(), self.clock.local())
