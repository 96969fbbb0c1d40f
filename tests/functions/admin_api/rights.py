"""Who may do what: a line for every route of the API, and a request to each of them that is sound."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, LiteralString
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import export
from counterfoil.dead_letters.export import ExportFile
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.documents import files
from counterfoil.settings import settings
from functions.admin_api.auth import Role
from tests.dead_letters.letters import NOON, dying
from tests.documents.einvoice_samples import pdf
from tests.documents.matching.office import Office
from tests.documents.matching.papers import invoice, line, order
from tests.documents.matching.test_judge import TWICE
from tests.documents.test_differences import compute
from tests.factories import (
    NOW,
    make_destination,
    make_held_mail,
    make_jobs,
    make_pool,
    make_profile,
    make_shard,
    make_task,
)
from tests.functions.admin_api.conftest import CLAIMS, begin_session
from tests.functions.admin_api.user_pool import PEOPLE
from tests.functions.mappings import MAPPING, FakeLambda

SUBJECT = CLAIMS["sub"]
Reach = Literal["thing", "tenant", "some tenant", "every tenant", "anybody"]
Tenancy = Literal["own", "foreign", "every", "none"]
"""Of which tenants a caller is, as seen from what is asked for."""


@dataclass(frozen=True)
class Things:
    """What requests are about."""

    slug: str
    task: str
    session: str
    letter: str
    purge: str
    export: str
    operation: str
    """On many letters, at its first version."""
    documents: tuple[str, str, str]
    """Two, and one that may belong to either."""
    billed: tuple[str, str]
    """An order, whose id is that of its cluster, and an invoice that is too high."""
    user: str
    pool: str
    """Of offers, one of whose users it is."""
    mail: str
    """On hold."""
    destination: str
    """Name of a webhook."""
    person: str
    """Id of a viewer of the tenant."""

    @classmethod
    def gone(cls) -> "Things":
        """Things that do not exist."""
        one, other, third, cluster, document, task = (str(uuid4()) for _ in range(6))
        session, letter, purge, export, operation, user, pool, mail = (str(uuid4()) for _ in range(8))
        papers = ((one, other, third), (cluster, document))
        return cls(
            "nowhere", task, session, letter, purge, export, operation, *papers, user, pool, mail, "none", str(uuid4())
        )


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = ""
    seen: int = 1
    """The version of what is changed, if it has one."""


@dataclass(frozen=True)
class Right:
    """Who may ask a route: callers of a role, for the tenant of what they ask for."""

    role: Role
    reach: Reach
    """What is asked for: a thing by its id, which is hidden from who may not look at its tenant; a tenant; what is for
    all who are of any; what is for those who are of all; or what is for everybody."""
    ask: Callable[[Things], Asked]
    answers: frozenset[int] = frozenset({200})
    """What is answered to those who may."""
    takes_editor: bool = False
    """Whether an operator needs the group `edit-payloads`, which an admin does not."""

    def allows(self, role: Role, tenancy: Tenancy, *, edits: bool) -> bool:
        """Whether it is for such a caller."""
        if self.reach == "anybody":
            return True
        needed = Role.ADMIN if self.takes_editor and not edits else self.role
        return role >= needed and tenancy in _REACHED_BY[self.reach]

    def refusal(self, role: Role, tenancy: Tenancy) -> int:
        """What is answered to those whom it is not for."""
        sees = role >= Role.VIEWER and tenancy in _REACHED_BY[self.reach]
        return 404 if self.reach == "thing" and not sees else 403


_REACHED_BY: dict[Reach, set[Tenancy]] = {
    "thing": {"own", "every"},
    "tenant": {"own", "every"},
    "some tenant": {"own", "foreign", "every"},
    "every tenant": {"every"},
}


def _thing(role: Role, ask: Callable[[Things], Asked], *answers: int, takes_editor: bool = False) -> Right:
    return Right(role, "thing", ask, frozenset(answers or {200}), takes_editor)


def _tenant(role: Role, path: str, *answers: int, **query: str) -> Right:
    return Right(
        role, "tenant", lambda things: Asked(path, {"tenant": things.slug, **query}), frozenset(answers or {200})
    )


def _letter(what: str, body: object = "") -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/dlq/{things.letter}{what}", body=body)


def _bulk(word: str, **note: str) -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/dlq/bulk-{word}", body={"filter": {"tenant": things.slug}, **note})


def _operation(what: str) -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/operations/{things.operation}{what}")


def _review(what: str, body: Callable[[Things], object] = lambda _: "") -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/reviews/{things.documents[2]}{what}", body=body(things))


def _document(what: str) -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/documents/{things.documents[0]}{what}")


def _decision(word: str, body: Callable[[Things], object]) -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/reviews/{word}", body=body(things))


def _difference(things: Things) -> object:
    cluster, document = things.billed
    figures = {"line": "1", "expected": "100.00", "actual": "101.5"}
    return {"cluster": cluster, "document": document, "code": "price_mismatch", **figures}


def _user(role: Role, what: str, *answers: int, body: object = "", seen: int = 1) -> Right:
    return Right(
        role,
        "tenant",
        lambda things: Asked(f"/api/users/{things.user}/{what}", {"tenant": things.slug}, body, seen),
        frozenset(answers or {200}),
    )


def _pool(what: Callable[[Things], str] = lambda _: "") -> Right:
    return _thing(Role.VIEWER, lambda things: Asked(f"/api/admin/offers/{things.pool}{what(things)}"))


def _switch(word: str) -> Callable[[Things], Asked]:
    return lambda _: Asked(f"/api/admin/queues/tasks/{word}", body={"reason": "A trial"})


def _mail(word: str) -> Callable[[Things], Asked]:
    return lambda things: Asked(f"/api/admin/mail/{things.mail}/{word}", body={})


def _setup(what: str, body: object = "", *answers: int) -> Right:
    return Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked(f"/api/admin/tenants/{things.slug}{what}", body=body),
        frozenset(answers or {200}),
    )


def _tolerances(what: str, role: Role = Role.ADMIN, body: object = "", status: int = 200) -> Right:
    return Right(
        role,
        "tenant",
        lambda things: Asked(f"/api/admin/tenants/{things.slug}/tolerances{what}", body=body),
        frozenset({status}),
    )


def _destination(what: str, status: int) -> Right:
    return Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked(f"/api/admin/tenants/{things.slug}/destinations/{things.destination}{what}"),
        frozenset({status}),
    )


PROFILE = {
    "timezone": "Asia/Kathmandu",
    "born": "1990-02-28",
    "gender": "nonbinary",
    "seeks": ["woman", "man"],
    "min_age": 25,
    "max_age": 45,
    "latitude": 27.7,
    "longitude": 85.3,
    "reach_km": 50,
}
"""One that is sound."""
KEPT = int(NOW.timestamp()) * 1_000_000
"""The version of a profile as tests make it."""
DECIDED = (200, 409)
"""A second decision about the same documents is in conflict with the first."""
RIGHTS: dict[str, Right] = {
    "GET /api/openapi.json": Right(Role.NONE, "anybody", lambda _: Asked("/api/openapi.json")),
    "POST /api/uploads": Right(
        Role.OPERATOR,
        "tenant",
        lambda things: Asked("/api/uploads", body={"tenant": things.slug, "file_name": "a.pdf"}),
        frozenset({201}),
    ),
    "POST /api/tasks": Right(
        Role.OPERATOR,
        "tenant",
        lambda things: Asked("/api/tasks", body={"tenant": things.slug, "task_type": "echo", "payload": {}}),
        frozenset({202}),
    ),
    "GET /api/tasks": _tenant(Role.VIEWER, "/api/tasks"),
    "GET /api/tasks/{job_id}": _thing(Role.VIEWER, lambda things: Asked(f"/api/tasks/{things.task}")),
    "POST /api/tasks/{job_id}/cancel": _thing(
        Role.OPERATOR, lambda things: Asked(f"/api/tasks/{things.task}/cancel", body={})
    ),
    "GET /api/chat/sessions": _tenant(Role.VIEWER, "/api/chat/sessions"),
    "GET /api/chat/sessions/{session_id}": _thing(
        Role.VIEWER, lambda things: Asked(f"/api/chat/sessions/{things.session}")
    ),
    "DELETE /api/chat/sessions/{session_id}": _thing(
        Role.OPERATOR, lambda things: Asked(f"/api/chat/sessions/{things.session}"), 204
    ),
    "GET /api/admin/reviews": _tenant(Role.VIEWER, "/api/admin/reviews"),
    "GET /api/admin/reviews/{document_id}": _thing(Role.VIEWER, _review("")),
    "POST /api/admin/reviews/{document_id}/confirm": _thing(
        Role.OPERATOR, _review("/confirm", lambda things: {"document": things.documents[0]}), *DECIDED
    ),
    "POST /api/admin/reviews/{document_id}/reject": _thing(
        Role.OPERATOR, _review("/reject", lambda things: {"documents": [things.documents[0]]}), *DECIDED
    ),
    "POST /api/admin/reviews/merge": _thing(
        Role.OPERATOR, _decision("merge", lambda things: {"documents": [*things.documents[1:]]}), *DECIDED
    ),
    "POST /api/admin/reviews/split": _thing(
        Role.OPERATOR, _decision("split", lambda things: {"document": things.documents[2]}), *DECIDED
    ),
    "POST /api/admin/reviews/accept": _thing(Role.OPERATOR, _decision("accept", _difference), *DECIDED),
    "POST /api/admin/reviews/dispute": _thing(Role.OPERATOR, _decision("dispute", _difference), *DECIDED),
    "GET /api/admin/documents": _tenant(Role.VIEWER, "/api/admin/documents"),
    **{
        f"GET /api/admin/documents/{{document_id}}{what}": _thing(Role.VIEWER, _document(what.replace("{number}", "1")))
        for what in ("", "/timeline", "/questions", "/pages/{number}")
    },
    "GET /api/uploads": _tenant(Role.VIEWER, "/api/uploads"),
    "GET /api/admin/clusters": _tenant(Role.VIEWER, "/api/admin/clusters"),
    "DELETE /api/admin/documents/{document_id}": _thing(Role.ADMIN, _document("")),
    "GET /api/admin/clusters/{cluster_id}": _thing(
        Role.VIEWER, lambda things: Asked(f"/api/admin/clusters/{things.billed[0]}")
    ),
    "GET /api/admin/dlq": _tenant(Role.VIEWER, "/api/admin/dlq"),
    "GET /api/admin/dlq/stats": _tenant(Role.VIEWER, "/api/admin/dlq/stats"),
    "GET /api/admin/dlq/groups": _tenant(Role.VIEWER, "/api/admin/dlq/groups"),
    "GET /api/admin/dlq/audit": _tenant(Role.VIEWER, "/api/admin/dlq/audit"),
    "GET /api/admin/dlq/{job_id}": _thing(Role.VIEWER, _letter("")),
    "GET /api/admin/dlq/{job_id}/timeline": _thing(Role.VIEWER, _letter("/timeline")),
    "POST /api/admin/dlq/{job_id}/retry": _thing(Role.OPERATOR, _letter("/retry", {})),
    "POST /api/admin/dlq/{job_id}/resolve": _thing(Role.OPERATOR, _letter("/resolve", {"notes": "Mended"})),
    "POST /api/admin/dlq/{job_id}/ignore": _thing(Role.OPERATOR, _letter("/ignore", {"reason": "A trial"})),
    "GET /api/admin/dlq/{job_id}/payload": _thing(Role.OPERATOR, _letter("/payload"), takes_editor=True),
    "PATCH /api/admin/dlq/{job_id}/payload": _thing(
        Role.OPERATOR, _letter("/payload", {"payload": {"say": "bye"}}), takes_editor=True
    ),
    "POST /api/admin/dlq/bulk-retry": Right(Role.OPERATOR, "tenant", _bulk("retry"), frozenset({202})),
    "POST /api/admin/dlq/bulk-resolve": Right(
        Role.OPERATOR, "tenant", _bulk("resolve", notes="Mended"), frozenset({202})
    ),
    "POST /api/admin/dlq/bulk-ignore": Right(
        Role.OPERATOR, "tenant", _bulk("ignore", reason="A trial"), frozenset({202})
    ),
    "GET /api/admin/operations": _tenant(Role.VIEWER, "/api/admin/operations"),
    "GET /api/admin/operations/{operation_id}": _thing(Role.VIEWER, _operation("")),
    "PATCH /api/admin/operations/{operation_id}": _thing(
        Role.OPERATOR, lambda things: Asked(f"/api/admin/operations/{things.operation}", body={"rate": 2})
    ),
    "GET /api/admin/operations/{operation_id}/items": _thing(Role.VIEWER, _operation("/items")),
    "POST /api/admin/operations/{operation_id}/pause": _thing(Role.OPERATOR, _operation("/pause")),
    "POST /api/admin/operations/{operation_id}/resume": _thing(
        Role.OPERATOR,
        _operation("/resume"),
        409,  # nobody has paused it
    ),
    "POST /api/admin/operations": Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked("/api/admin/operations", body={"tenant": things.slug, "action": "match"}),
        frozenset({202}),
    ),
    "POST /api/admin/operations/{operation_id}/cancel": _thing(Role.OPERATOR, _operation("/cancel")),
    "DELETE /api/admin/dlq/purge": _tenant(
        Role.ADMIN, "/api/admin/dlq/purge", before_date="2026-01-01T00:00:00Z", status="resolved"
    ),
    "POST /api/admin/operations/{operation_id}/restore": _thing(
        Role.ADMIN, lambda things: Asked(f"/api/admin/operations/{things.purge}/restore"), 200, 202
    ),
    "GET /api/admin/dlq/export": _tenant(Role.VIEWER, "/api/admin/dlq/export", format="csv"),
    "GET /api/admin/operations/{operation_id}/file": _thing(
        Role.VIEWER,
        lambda things: Asked(f"/api/admin/operations/{things.export}/file"),
        409,  # it is in progress
    ),
    "GET /api/admin/mail": _tenant(Role.VIEWER, "/api/admin/mail"),
    "GET /api/admin/mail/policy": _tenant(Role.VIEWER, "/api/admin/mail/policy"),
    "PUT /api/admin/mail/policy": Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked(
            "/api/admin/mail/policy", {"tenant": things.slug}, {"dmarc_policy": "reject", "previous": "hold"}
        ),
    ),
    **{
        f"POST /api/admin/mail/{{mail_id}}/{word}": _thing(Role.OPERATOR, _mail(word)) for word in ("release", "reject")
    },
    "GET /api/admin/tenants": Right(Role.VIEWER, "some tenant", lambda _: Asked("/api/admin/tenants")),
    "POST /api/admin/tenants": Right(
        Role.ADMIN, "every tenant", lambda things: Asked("/api/admin/tenants", body={"slug": things.slug})
    ),
    "GET /api/admin/tenants/{tenant}": _setup(""),
    "PATCH /api/admin/tenants/{tenant}": Right(
        Role.ADMIN,
        "every tenant",
        lambda things: Asked(f"/api/admin/tenants/{things.slug}", body={"is_disabled": False}),
    ),
    **{
        f"PATCH /api/admin/tenants/{{tenant}}/{what}": _setup(f"/{what}", {"added": [f"{what}@acme.example"]})
        for what in ("addresses", "admins")
    },
    "GET /api/admin/tenants/{tenant}/destinations": _setup("/destinations"),
    "POST /api/admin/tenants/{tenant}/destinations": Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked(
            f"/api/admin/tenants/{things.slug}/destinations",
            body={"name": f"erp-{things.mail}", "kind": "webhook", "address": "https://erp.example.com/hook"},
        ),
        frozenset({201}),
    ),
    "DELETE /api/admin/tenants/{tenant}/destinations/{name}": _destination("", 204),
    "POST /api/admin/tenants/{tenant}/destinations/{name}/rotate": _destination("/rotate", 200),
    "GET /api/admin/tenants/{tenant}/tolerances": _tolerances("", Role.VIEWER),
    "PUT /api/admin/tenants/{tenant}/tolerances": _tolerances("", body={"key": "price", "upper_percent": "2"}),
    "DELETE /api/admin/tenants/{tenant}/tolerances": Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked(f"/api/admin/tenants/{things.slug}/tolerances", {"key": "tax"}),
        frozenset({404}),  # none is set
    ),
    "POST /api/admin/tenants/{tenant}/tolerances/recompare": _tolerances("/recompare"),
    "GET /api/admin/tenants/{tenant}/tolerances/suggestions": _tolerances("/suggestions", Role.VIEWER),
    "POST /api/admin/tenants/{tenant}/tolerances/suggestions/{suggestion_id}/accept": _tolerances(
        "/suggestions/0a1b2c3d/accept",
        Role.ADMIN,
        {},
        409,  # nothing is suggested
    ),
    "GET /api/admin/people": _tenant(Role.ADMIN, "/api/admin/people"),
    "POST /api/admin/people": Right(
        Role.ADMIN,
        "tenant",
        lambda things: Asked(
            "/api/admin/people",
            body={"email": f"{uuid4()}@acme.example", "role": "viewer", "tenants": [things.slug]},
        ),
        frozenset({201}),
    ),
    "PATCH /api/admin/people/{person_id}": _thing(
        Role.ADMIN, lambda things: Asked(f"/api/admin/people/{things.person}", body={"role": "operator"})
    ),
    "DELETE /api/admin/people/{person_id}": _thing(
        Role.ADMIN, lambda things: Asked(f"/api/admin/people/{things.person}"), 204
    ),
    "DELETE /api/admin/tenants/{tenant}": Right(
        Role.ADMIN, "every tenant", lambda things: Asked(f"/api/admin/tenants/{things.slug}")
    ),
    "GET /api/admin/tenants/{tenant}/erasure": Right(
        Role.ADMIN,
        "every tenant",
        lambda things: Asked(f"/api/admin/tenants/{things.slug}/erasure"),
        frozenset({404}),  # no tenant is being erased
    ),
    "GET /api/admin/dlq/named": Right(
        Role.VIEWER, "some tenant", lambda _: Asked("/api/admin/dlq/named", {"kind": "letter", "part": "0a1b"})
    ),
    "GET /api/admin/queues": _tenant(Role.VIEWER, "/api/admin/queues"),
    "GET /api/admin/queues/paused": Right(
        Role.VIEWER, "some tenant", lambda _: Asked("/api/admin/queues/paused"), frozenset({200})
    ),
    **{
        f"POST /api/admin/queues/{{worker}}/{word}": Right(
            Role.ADMIN,
            "every tenant",
            _switch(word),
            frozenset({200, 412}),
        )
        for word in ("pause", "resume")
    },
    "PUT /api/users/{user_id}/profile": _user(Role.OPERATOR, "profile", body=PROFILE, seen=KEPT),
    "GET /api/users/{user_id}/profile": _user(Role.VIEWER, "profile"),
    "DELETE /api/users/{user_id}/profile": _user(Role.OPERATOR, "profile", 204),
    **{
        f"{method} /api/users/{{user_id}}/blocks/{{blocked_id}}": _user(Role.OPERATOR, f"blocks/{uuid4()}", 204)
        for method in ("PUT", "DELETE")
    },
    "GET /api/users/{user_id}/blocks": _user(Role.VIEWER, "blocks"),
    "GET /api/users/{user_id}/offers": _user(Role.VIEWER, "offers"),
    "GET /api/admin/offers": _tenant(Role.VIEWER, "/api/admin/offers"),
    "POST /api/admin/offers": Right(
        Role.OPERATOR,
        "tenant",
        lambda things: Asked("/api/admin/offers", body={"timezone": "UTC", "tenant": things.slug}),
        frozenset({202}),
    ),
    "GET /api/admin/offers/{pool_id}": _pool(),
    "GET /api/admin/offers/{pool_id}/failed": _pool(lambda _: "/failed"),
    "GET /api/admin/offers/{pool_id}/users/{user_id}": _pool(lambda things: f"/users/{things.user}"),
}
"""By method and path, as the description has them."""

BILLED = (
    order(number="4712", lines=[line("A-1", price="100.00")]),
    invoice(number="R-82", po_reference="4712", lines=[line("A-1", price="101.50")]),
)


def surround(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everybody ask as often as he likes, let there be a queue, and behind every document a file."""
    monkeypatch.setattr(files, "read", lambda _: pdf(text="Rechnung 17"))
    given = aws.client
    monkeypatch.setattr(aws, "client", lambda service: FakeLambda() if service == "lambda" else given(service))
    queues = {"tasks": {"urls": ["q/tasks"], "mappings": [str(MAPPING)], "gate": 24}}
    monkeypatch.setenv("QUEUES", json.dumps(queues))
    monkeypatch.setenv("INVOKED_FUNCTIONS", json.dumps({"offers_scheduler": "scheduler"}))
    monkeypatch.setenv("CHANGES_AT_ONCE", "1000000")
    monkeypatch.setenv("READS_AT_ONCE", "1000000")
    settings.cache_clear()


class World:
    """A tenant with something of everything, which is the tests' caller's as far as it is somebody's."""

    def __init__(self, database: Database, admin: Connection, slug: str) -> None:
        self._database, self._admin = database, admin
        office = Office(database, admin, [*TWICE, *BILLED])
        office.match_all()
        compute(office, len(TWICE))
        self.slug, self.tenant_id = slug, office.tenant_id
        admin.execute("UPDATE tenant SET slug = %s WHERE id = %s", [slug, office.tenant_id])
        one, other, third, cluster, document = map(str, office.ids)
        self._documents, self._billed = (one, other, third), (cluster, document)

    def things(self) -> Things:
        """All of it, what a request may use up made anew."""
        task = make_task(self._admin, self.tenant_id, user_id=SUBJECT)
        failed = make_task(self._admin, self.tenant_id, status="failed", attempts=6, failed_at=NOON, error="It failed")
        die = dying(self._database, self.tenant_id)
        letter = die(worker="tasks", task_type="echo", work_id=failed)
        session = begin_session(self._admin, self.slug)
        purge = str(self._purge())
        export, operation = str(self._export()), str(self._operation())
        shared = (self._documents, self._billed)
        ids = (str(task), session, str(letter), purge, export, operation)
        user, pool = map(str, self._offered())
        mail = str(make_held_mail(self._admin, self.tenant_id))
        destination = f"hook-{mail}"
        make_destination(self._admin, self.tenant_id, destination, url="https://erp.example.com/hook")
        person = PEOPLE.add(f"{mail}@acme.example", "viewer", f"tenant:{self.slug}")
        return Things(self.slug, *ids, *shared, user, pool, mail, destination, person)

    def _offered(self) -> tuple[UUID, UUID]:
        """Somebody whose offers of a date are to come, and their pool."""
        external_id = uuid4()
        user = make_profile(self._admin, self.tenant_id, external_id=external_id)
        pool = make_pool(self._admin, self.tenant_id)
        shard = make_shard(self._admin, self.tenant_id, [user], pool_id=pool)
        make_jobs(self._admin, shard)
        return external_id, pool

    def _export(self) -> UUID:
        file, now = ExportFile("csv", redacted=True), datetime.now(UTC)
        with self._database.tenant(self.tenant_id) as connection:
            return export.request(connection, self.tenant_id, DeadLetterFilter(), file, by=SUBJECT, now=now).id

    def _purge(self) -> UUID:
        return self._made(
            "INSERT INTO operation (tenant_id, action, filter, state, requested_by, requested_at, stepped_at)"
            """ VALUES (%s, 'purge', '{"status": ["resolved"], "to_date": "2026-03-02T12:00:00Z"}', 'running', 'kim',
            now(), now()) RETURNING id""",
            [self.tenant_id],
        )

    def _operation(self) -> UUID:
        return self._made(
            "INSERT INTO operation (tenant_id, action, filter, rate, requested_by, requested_at,"
            " stepped_at) VALUES (%s, 'retry', '{}', 1, 'kim', now(), now()) RETURNING id",
            [self.tenant_id],
        )

    def _made(self, statement: LiteralString, values: Sequence[object]) -> UUID:
        row = self._admin.execute(statement, values).fetchone()
        assert row is not None
        (id_,) = row
        assert isinstance(id_, UUID)
        return id_


def parts(operation: str) -> tuple[str, str]:
    """Method and path of an operation."""
    method, _, path = operation.partition(" ")
    return method, path


def described(document: Mapping[str, Any]) -> dict[str, Any]:
    """Every operation of the description, by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
