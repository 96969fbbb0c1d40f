"""Permissions for every API route, each with a valid request."""

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
from tests.dead_letters.dead_letter_factory import NOON, dead_letter_factory
from tests.documents.einvoice_samples import pdf
from tests.documents.matching.samples import invoice, line, order
from tests.documents.matching.tenant_harness import TenantHarness
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
from tests.functions.fake_lambda import MAPPING, FakeLambda

SUBJECT = CLAIMS["sub"]
Reach = Literal["resource", "tenant", "some tenant", "every tenant", "public"]
Tenancy = Literal["own", "foreign", "every", "none"]
"""Relation of the caller's tenants to the requested tenant."""


@dataclass(frozen=True)
class Resources:
    """Ids of the resources that the requests refer to."""

    slug: str
    task: str
    session: str
    dead_letter: str
    purge: str
    export: str
    operation: str
    """Bulk operation on dead letters, at version 1."""
    documents: tuple[str, str, str]
    """Two candidates, followed by the document that may match either."""
    billed: tuple[str, str]
    """A purchase order, whose id is also the cluster's id, and an invoice with a price difference."""
    user: str
    pool: str
    """Offer pool that contains the user."""
    mail: str
    """Mail on hold."""
    destination: str
    """Name of a webhook."""
    person: str
    """Id of a viewer of the tenant."""

    @classmethod
    def missing(cls) -> "Resources":
        """Return ids of resources that do not exist."""
        first, second, third, cluster, document, task = (str(uuid4()) for _ in range(6))
        session, dead_letter, purge, export, operation, user, pool, mail = (str(uuid4()) for _ in range(8))
        shared = ((first, second, third), (cluster, document))
        return cls(
            "nowhere",
            task,
            session,
            dead_letter,
            purge,
            export,
            operation,
            *shared,
            user,
            pool,
            mail,
            "none",
            str(uuid4()),
        )


@dataclass(frozen=True)
class ApiRequest:
    """Path, query, body and version of a request."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = ""
    version: int = 1
    """Version for `If-Match`."""


@dataclass(frozen=True)
class Permission:
    """Permission for a route: required role and tenants, and a sample request."""

    role: Role
    reach: Reach
    """Tenants that the caller needs access to.

    - `resource`: the resource's tenant; for other callers, the resource does not exist
    - `tenant`: the requested tenant
    - `some tenant`: at least one tenant
    - `every tenant`: all tenants
    - `public`: none
    """
    request: Callable[[Resources], ApiRequest]
    statuses: frozenset[int] = frozenset({200})
    """Possible statuses of the response to an allowed request."""
    requires_editor: bool = False
    """Whether operators require the group `edit-payloads`. Admins never do."""

    def allows(self, role: Role, tenancy: Tenancy, *, edits: bool) -> bool:
        """Return True if the caller may send the request."""
        if self.reach == "public":
            return True
        needed = Role.ADMIN if self.requires_editor and not edits else self.role
        return role >= needed and tenancy in _TENANCIES_IN_REACH[self.reach]

    def refusal(self, role: Role, tenancy: Tenancy) -> int:
        """Return the response status for callers without permission."""
        can_view = role >= Role.VIEWER and tenancy in _TENANCIES_IN_REACH[self.reach]
        return 404 if self.reach == "resource" and not can_view else 403


_TENANCIES_IN_REACH: dict[Reach, set[Tenancy]] = {
    "resource": {"own", "every"},
    "tenant": {"own", "every"},
    "some tenant": {"own", "foreign", "every"},
    "every tenant": {"every"},
}


def _resource(
    role: Role, request: Callable[[Resources], ApiRequest], *statuses: int, requires_editor: bool = False
) -> Permission:
    return Permission(role, "resource", request, frozenset(statuses or {200}), requires_editor)


def _tenant(role: Role, path: str, *statuses: int, **query: str) -> Permission:
    return Permission(
        role,
        "tenant",
        lambda resources: ApiRequest(path, {"tenant": resources.slug, **query}),
        frozenset(statuses or {200}),
    )


def _dead_letter(suffix: str, body: object = "") -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(f"/api/admin/dlq/{resources.dead_letter}{suffix}", body=body)


def _bulk(action: str, **note: str) -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(
        f"/api/admin/dlq/bulk-{action}", body={"filter": {"tenant": resources.slug}, **note}
    )


def _operation(suffix: str) -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(f"/api/admin/operations/{resources.operation}{suffix}")


def _review(suffix: str, body: Callable[[Resources], object] = lambda _: "") -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(f"/api/admin/reviews/{resources.documents[2]}{suffix}", body=body(resources))


def _document(suffix: str) -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(f"/api/admin/documents/{resources.documents[0]}{suffix}")


def _decision(
    action: str, body: Callable[[Resources], object], on: str = "reviews"
) -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(f"/api/admin/{on}/{action}", body=body(resources))


def _difference(resources: Resources) -> object:
    cluster, document = resources.billed
    figures = {"line": "1", "expected": "100.00", "actual": "101.5"}
    return {"cluster": cluster, "document": document, "code": "price_mismatch", **figures}


def _user(role: Role, suffix: str, *statuses: int, body: object = "", version: int = 1) -> Permission:
    return Permission(
        role,
        "tenant",
        lambda resources: ApiRequest(
            f"/api/users/{resources.user}/{suffix}", {"tenant": resources.slug}, body, version
        ),
        frozenset(statuses or {200}),
    )


def _pool(suffix: Callable[[Resources], str] = lambda _: "") -> Permission:
    return _resource(
        Role.VIEWER, lambda resources: ApiRequest(f"/api/admin/offers/{resources.pool}{suffix(resources)}")
    )


def _switch(action: str) -> Callable[[Resources], ApiRequest]:
    return lambda _: ApiRequest(f"/api/admin/queues/tasks/{action}", body={"reason": "A trial"})


def _mail(action: str) -> Callable[[Resources], ApiRequest]:
    return lambda resources: ApiRequest(f"/api/admin/mail/{resources.mail}/{action}", body={})


def _setup(suffix: str, body: object = "", *statuses: int) -> Permission:
    return Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest(f"/api/admin/tenants/{resources.slug}{suffix}", body=body),
        frozenset(statuses or {200}),
    )


def _tolerances(suffix: str, role: Role = Role.ADMIN, body: object = "", status: int = 200) -> Permission:
    return Permission(
        role,
        "tenant",
        lambda resources: ApiRequest(f"/api/admin/tenants/{resources.slug}/tolerances{suffix}", body=body),
        frozenset({status}),
    )


def _destination(suffix: str, status: int) -> Permission:
    return Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest(
            f"/api/admin/tenants/{resources.slug}/destinations/{resources.destination}{suffix}"
        ),
        frozenset({status}),
    )


PROFILE = {
    "timezone": "Asia/Kathmandu",
    "birth_date": "1990-02-28",
    "gender": "nonbinary",
    "seeks_genders": ["woman", "man"],
    "min_age": 25,
    "max_age": 45,
    "latitude": 27.7,
    "longitude": 85.3,
    "max_distance_km": 50,
}
"""A valid profile."""
PROFILE_VERSION = int(NOW.timestamp()) * 1_000_000
"""Version of the profiles that tests create."""
DECIDED = (200, 409)
"""Response statuses of a decision. A second decision about the same documents conflicts with the first."""
PERMISSIONS: dict[str, Permission] = {
    "GET /api/openapi.json": Permission(Role.NONE, "public", lambda _: ApiRequest("/api/openapi.json")),
    "POST /api/uploads": Permission(
        Role.OPERATOR,
        "tenant",
        lambda resources: ApiRequest("/api/uploads", body={"tenant": resources.slug, "file_name": "a.pdf"}),
        frozenset({201}),
    ),
    "POST /api/tasks": Permission(
        Role.OPERATOR,
        "tenant",
        lambda resources: ApiRequest("/api/tasks", body={"tenant": resources.slug, "task_type": "echo", "payload": {}}),
        frozenset({202}),
    ),
    "GET /api/tasks": _tenant(Role.VIEWER, "/api/tasks"),
    "GET /api/tasks/{job_id}": _resource(Role.VIEWER, lambda resources: ApiRequest(f"/api/tasks/{resources.task}")),
    "POST /api/tasks/{job_id}/cancel": _resource(
        Role.OPERATOR, lambda resources: ApiRequest(f"/api/tasks/{resources.task}/cancel", body={})
    ),
    "GET /api/chat/sessions": _tenant(Role.VIEWER, "/api/chat/sessions"),
    "GET /api/chat/sessions/{session_id}": _resource(
        Role.VIEWER, lambda resources: ApiRequest(f"/api/chat/sessions/{resources.session}")
    ),
    "DELETE /api/chat/sessions/{session_id}": _resource(
        Role.OPERATOR, lambda resources: ApiRequest(f"/api/chat/sessions/{resources.session}"), 204
    ),
    "GET /api/admin/reviews": _tenant(Role.VIEWER, "/api/admin/reviews"),
    "GET /api/admin/reviews/{document_id}": _resource(Role.VIEWER, _review("")),
    "POST /api/admin/reviews/{document_id}/confirm": _resource(
        Role.OPERATOR, _review("/confirm", lambda resources: {"document": resources.documents[0]}), *DECIDED
    ),
    "POST /api/admin/reviews/{document_id}/reject": _resource(
        Role.OPERATOR, _review("/reject", lambda resources: {"documents": [resources.documents[0]]}), *DECIDED
    ),
    "POST /api/admin/reviews/merge": _resource(
        Role.OPERATOR, _decision("merge", lambda resources: {"documents": [*resources.documents[1:]]}), *DECIDED
    ),
    "POST /api/admin/reviews/split": _resource(
        Role.OPERATOR, _decision("split", lambda resources: {"document": resources.documents[2]}), *DECIDED
    ),
    "POST /api/admin/variances/accept": _resource(
        Role.OPERATOR, _decision("accept", _difference, "variances"), *DECIDED
    ),
    "POST /api/admin/variances/dispute": _resource(
        Role.OPERATOR, _decision("dispute", _difference, "variances"), *DECIDED
    ),
    "GET /api/admin/documents": _tenant(Role.VIEWER, "/api/admin/documents"),
    **{
        f"GET /api/admin/documents/{{document_id}}{suffix}": _resource(
            Role.VIEWER, _document(suffix.replace("{number}", "1"))
        )
        for suffix in ("", "/timeline", "/questions", "/pages/{number}")
    },
    "GET /api/uploads": _tenant(Role.VIEWER, "/api/uploads"),
    "GET /api/admin/clusters": _tenant(Role.VIEWER, "/api/admin/clusters"),
    "DELETE /api/admin/documents/{document_id}": _resource(Role.ADMIN, _document("")),
    "GET /api/admin/clusters/{cluster_id}": _resource(
        Role.VIEWER, lambda resources: ApiRequest(f"/api/admin/clusters/{resources.billed[0]}")
    ),
    "GET /api/admin/dlq": _tenant(Role.VIEWER, "/api/admin/dlq"),
    "GET /api/admin/dlq/stats": _tenant(Role.VIEWER, "/api/admin/dlq/stats"),
    "GET /api/admin/dlq/groups": _tenant(Role.VIEWER, "/api/admin/dlq/groups"),
    "GET /api/admin/dlq/audit": _tenant(Role.VIEWER, "/api/admin/dlq/audit"),
    "GET /api/admin/dlq/{job_id}": _resource(Role.VIEWER, _dead_letter("")),
    "GET /api/admin/dlq/{job_id}/timeline": _resource(Role.VIEWER, _dead_letter("/timeline")),
    "POST /api/admin/dlq/{job_id}/retry": _resource(Role.OPERATOR, _dead_letter("/retry", {})),
    "POST /api/admin/dlq/{job_id}/resolve": _resource(Role.OPERATOR, _dead_letter("/resolve", {"notes": "Mended"})),
    "POST /api/admin/dlq/{job_id}/ignore": _resource(Role.OPERATOR, _dead_letter("/ignore", {"reason": "A trial"})),
    "GET /api/admin/dlq/{job_id}/payload": _resource(Role.OPERATOR, _dead_letter("/payload"), requires_editor=True),
    "PATCH /api/admin/dlq/{job_id}/payload": _resource(
        Role.OPERATOR, _dead_letter("/payload", {"payload": {"say": "bye"}}), requires_editor=True
    ),
    "POST /api/admin/dlq/bulk-retry": Permission(Role.OPERATOR, "tenant", _bulk("retry"), frozenset({202})),
    "POST /api/admin/dlq/bulk-resolve": Permission(
        Role.OPERATOR, "tenant", _bulk("resolve", notes="Mended"), frozenset({202})
    ),
    "POST /api/admin/dlq/bulk-ignore": Permission(
        Role.OPERATOR, "tenant", _bulk("ignore", reason="A trial"), frozenset({202})
    ),
    "GET /api/admin/operations": _tenant(Role.VIEWER, "/api/admin/operations"),
    "GET /api/admin/operations/{operation_id}": _resource(Role.VIEWER, _operation("")),
    "PATCH /api/admin/operations/{operation_id}": _resource(
        Role.OPERATOR, lambda resources: ApiRequest(f"/api/admin/operations/{resources.operation}", body={"rate": 2})
    ),
    "GET /api/admin/operations/{operation_id}/items": _resource(Role.VIEWER, _operation("/items")),
    "POST /api/admin/operations/{operation_id}/pause": _resource(Role.OPERATOR, _operation("/pause")),
    "POST /api/admin/operations/{operation_id}/resume": _resource(
        Role.OPERATOR,
        _operation("/resume"),
        409,  # the operation is not paused
    ),
    "POST /api/admin/operations": Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest("/api/admin/operations", body={"tenant": resources.slug, "action": "match"}),
        frozenset({202}),
    ),
    "POST /api/admin/operations/{operation_id}/cancel": _resource(Role.OPERATOR, _operation("/cancel")),
    "DELETE /api/admin/dlq/purge": _tenant(
        Role.ADMIN, "/api/admin/dlq/purge", before_date="2026-01-01T00:00:00Z", status="resolved"
    ),
    "POST /api/admin/operations/{operation_id}/restore": _resource(
        Role.ADMIN, lambda resources: ApiRequest(f"/api/admin/operations/{resources.purge}/restore"), 200, 202
    ),
    "GET /api/admin/dlq/export": _tenant(Role.VIEWER, "/api/admin/dlq/export", format="csv"),
    "GET /api/admin/operations/{operation_id}/file": _resource(
        Role.VIEWER,
        lambda resources: ApiRequest(f"/api/admin/operations/{resources.export}/file"),
        409,  # the export is in progress
    ),
    "GET /api/admin/mail": _tenant(Role.VIEWER, "/api/admin/mail"),
    "GET /api/admin/mail/policy": _tenant(Role.VIEWER, "/api/admin/mail/policy"),
    "PUT /api/admin/mail/policy": Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest(
            "/api/admin/mail/policy", {"tenant": resources.slug}, {"dmarc_policy": "reject", "previous": "hold"}
        ),
    ),
    **{
        f"POST /api/admin/mail/{{mail_id}}/{action}": _resource(Role.OPERATOR, _mail(action))
        for action in ("release", "reject")
    },
    "GET /api/admin/tenants": Permission(Role.VIEWER, "some tenant", lambda _: ApiRequest("/api/admin/tenants")),
    "POST /api/admin/tenants": Permission(
        Role.ADMIN, "every tenant", lambda resources: ApiRequest("/api/admin/tenants", body={"slug": resources.slug})
    ),
    "GET /api/admin/tenants/{tenant}": _setup(""),
    "PATCH /api/admin/tenants/{tenant}": Permission(
        Role.ADMIN,
        "every tenant",
        lambda resources: ApiRequest(f"/api/admin/tenants/{resources.slug}", body={"is_disabled": False}),
    ),
    **{
        f"PATCH /api/admin/tenants/{{tenant}}/{suffix}": _setup(f"/{suffix}", {"added": [f"{suffix}@acme.example"]})
        for suffix in ("addresses", "admins")
    },
    "GET /api/admin/tenants/{tenant}/destinations": _setup("/destinations"),
    "POST /api/admin/tenants/{tenant}/destinations": Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest(
            f"/api/admin/tenants/{resources.slug}/destinations",
            body={"name": f"erp-{resources.mail}", "kind": "webhook", "address": "https://erp.example.com/hook"},
        ),
        frozenset({201}),
    ),
    "DELETE /api/admin/tenants/{tenant}/destinations/{name}": _destination("", 204),
    "POST /api/admin/tenants/{tenant}/destinations/{name}/rotate": _destination("/rotate", 200),
    "GET /api/admin/tenants/{tenant}/tolerances": _tolerances("", Role.VIEWER),
    "PUT /api/admin/tenants/{tenant}/tolerances": _tolerances("", body={"key": "price", "upper_percent": "2"}),
    "DELETE /api/admin/tenants/{tenant}/tolerances": Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest(f"/api/admin/tenants/{resources.slug}/tolerances", {"key": "tax"}),
        frozenset({404}),  # no tolerance is set
    ),
    "POST /api/admin/tenants/{tenant}/tolerances/recompare": _tolerances("/recompare"),
    "GET /api/admin/tenants/{tenant}/tolerances/suggestions": _tolerances("/suggestions", Role.VIEWER),
    "POST /api/admin/tenants/{tenant}/tolerances/suggestions/{suggestion_id}/accept": _tolerances(
        "/suggestions/0a1b2c3d/accept",
        Role.ADMIN,
        {},
        409,  # there are no suggestions
    ),
    "GET /api/admin/people/emails": Permission(
        Role.VIEWER,
        "some tenant",
        lambda resources: ApiRequest("/api/admin/people/emails", {"subject": resources.person}),
    ),
    "GET /api/admin/people": _tenant(Role.ADMIN, "/api/admin/people"),
    "POST /api/admin/people": Permission(
        Role.ADMIN,
        "tenant",
        lambda resources: ApiRequest(
            "/api/admin/people",
            body={"email": f"{uuid4()}@acme.example", "role": "viewer", "tenants": [resources.slug]},
        ),
        frozenset({201}),
    ),
    "PATCH /api/admin/people/{person_id}": _resource(
        Role.ADMIN, lambda resources: ApiRequest(f"/api/admin/people/{resources.person}", body={"role": "operator"})
    ),
    "DELETE /api/admin/people/{person_id}": _resource(
        Role.ADMIN, lambda resources: ApiRequest(f"/api/admin/people/{resources.person}"), 204
    ),
    "DELETE /api/admin/tenants/{tenant}": Permission(
        Role.ADMIN, "every tenant", lambda resources: ApiRequest(f"/api/admin/tenants/{resources.slug}")
    ),
    "GET /api/admin/tenants/{tenant}/erasure": Permission(
        Role.ADMIN,
        "every tenant",
        lambda resources: ApiRequest(f"/api/admin/tenants/{resources.slug}/erasure"),
        frozenset({404}),  # no tenant is being erased
    ),
    "GET /api/admin/dlq/lookup": Permission(
        Role.VIEWER,
        "some tenant",
        lambda _: ApiRequest("/api/admin/dlq/lookup", {"kind": "dead_letter", "part": "0a1b"}),
    ),
    "GET /api/admin/queues": _tenant(Role.VIEWER, "/api/admin/queues"),
    "GET /api/admin/queues/paused": Permission(
        Role.VIEWER, "some tenant", lambda _: ApiRequest("/api/admin/queues/paused"), frozenset({200})
    ),
    **{
        f"POST /api/admin/queues/{{worker}}/{action}": Permission(
            Role.ADMIN,
            "every tenant",
            _switch(action),
            frozenset({200, 412}),
        )
        for action in ("pause", "resume")
    },
    "PUT /api/users/{user_id}/profile": _user(Role.OPERATOR, "profile", body=PROFILE, version=PROFILE_VERSION),
    "GET /api/users/{user_id}/profile": _user(Role.VIEWER, "profile"),
    "DELETE /api/users/{user_id}/profile": _user(Role.OPERATOR, "profile", 204),
    **{
        f"{method} /api/users/{{user_id}}/blocks/{{blocked_id}}": _user(Role.OPERATOR, f"blocks/{uuid4()}", 204)
        for method in ("PUT", "DELETE")
    },
    "GET /api/users/{user_id}/blocks": _user(Role.VIEWER, "blocks"),
    "GET /api/users/{user_id}/offers": _user(Role.VIEWER, "offers"),
    "GET /api/admin/offers": _tenant(Role.VIEWER, "/api/admin/offers"),
    "POST /api/admin/offers": Permission(
        Role.OPERATOR,
        "tenant",
        lambda resources: ApiRequest("/api/admin/offers", body={"timezone": "UTC", "tenant": resources.slug}),
        frozenset({202}),
    ),
    "GET /api/admin/offers/{pool_id}": _pool(),
    "GET /api/admin/offers/{pool_id}/failed": _pool(lambda _: "/failed"),
    "GET /api/admin/offers/{pool_id}/users/{user_id}": _pool(lambda resources: f"/users/{resources.user}"),
}
"""Permissions by method and path, as in the API description."""

BILLED = (
    order(number="4712", lines=[line("A-1", price="100.00")]),
    invoice(number="R-82", po_reference="4712", lines=[line("A-1", price="101.50")]),
)


def set_up_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable rate limits, and set up a queue, a fake Lambda and a PDF file.

    Every document has this file.
    """
    monkeypatch.setattr(files, "read", lambda _: pdf(text="Rechnung 17"))
    original_client = aws.client
    monkeypatch.setattr(
        aws, "client", lambda service: FakeLambda() if service == "lambda" else original_client(service)
    )
    queues = {"tasks": {"urls": ["q/tasks"], "mappings": [str(MAPPING)], "limit": 24}}
    monkeypatch.setenv("QUEUES", json.dumps(queues))
    monkeypatch.setenv("INVOKED_FUNCTIONS", json.dumps({"offers_scheduler": "scheduler"}))
    monkeypatch.setenv("RATE_LIMIT_BURST", "1000000")
    monkeypatch.setenv("READS_AT_ONCE", "1000000")
    settings.cache_clear()


class SampleTenant:
    """A tenant with a resource of each kind.

    The default caller owns the task and the session.
    """

    def __init__(self, database: Database, admin: Connection, slug: str) -> None:
        self._database, self._admin = database, admin
        harness = TenantHarness(database, admin, [*TWICE, *BILLED])
        harness.match_all()
        compute(harness, len(TWICE))
        self.slug, self.tenant_id = slug, harness.tenant_id
        admin.execute("UPDATE tenant SET slug = %s WHERE id = %s", [slug, harness.tenant_id])
        first, second, third, cluster, document = map(str, harness.ids)
        self._documents, self._billed = (first, second, third), (cluster, document)

    def resources(self) -> Resources:
        """Return one resource of each kind.

        Each call creates new resources, except documents.
        """
        task = make_task(self._admin, self.tenant_id, user_id=SUBJECT)
        failed_task = make_task(
            self._admin, self.tenant_id, status="failed", attempts=6, failed_at=NOON, error="It failed"
        )
        add_dead_letter = dead_letter_factory(self._database, self.tenant_id)
        dead_letter = add_dead_letter(worker="tasks", task_type="echo", work_id=failed_task)
        session = begin_session(self._admin, self.slug)
        purge = str(self._purge())
        export, operation = str(self._export()), str(self._operation())
        shared = (self._documents, self._billed)
        ids = (str(task), session, str(dead_letter), purge, export, operation)
        user, pool = map(str, self._add_user_with_offers())
        mail = str(make_held_mail(self._admin, self.tenant_id))
        destination = f"hook-{mail}"
        make_destination(self._admin, self.tenant_id, destination, url="https://erp.example.com/hook")
        person = PEOPLE.add(f"{mail}@acme.example", "viewer", f"tenant:{self.slug}")
        return Resources(self.slug, *ids, *shared, user, pool, mail, destination, person)

    def _add_user_with_offers(self) -> tuple[UUID, UUID]:
        """Create a user with pending offers. Return the ids of the user and the pool."""
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
        return self._insert(
            "INSERT INTO operation (tenant_id, action, filter, state, requested_by, requested_at, last_step_at)"
            """ VALUES (%s, 'purge', '{"status": ["resolved"], "to_date": "2026-03-02T12:00:00Z"}', 'running', 'kim',
            now(), now()) RETURNING id""",
            [self.tenant_id],
        )

    def _operation(self) -> UUID:
        return self._insert(
            "INSERT INTO operation (tenant_id, action, filter, rate, requested_by, requested_at,"
            " last_step_at) VALUES (%s, 'retry', '{}', 1, 'kim', now(), now()) RETURNING id",
            [self.tenant_id],
        )

    def _insert(self, statement: LiteralString, values: Sequence[object]) -> UUID:
        row = self._admin.execute(statement, values).fetchone()
        assert row is not None
        (id_,) = row
        assert isinstance(id_, UUID)
        return id_


def method_and_path(operation: str) -> tuple[str, str]:
    """Split an operation into method and path."""
    method, _, path = operation.partition(" ")
    return method, path


def operations_by_route(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return every operation in the API description, by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
