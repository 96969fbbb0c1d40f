"""Schemathesis holds the API against its own description: whatever is asked, it answers as promised and never fails."""

from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from counterfoil.db import Connection, Database
from counterfoil.settings import settings as chosen
from functions.admin_api.handler import document
from tests.dead_letters.letters import dying
from tests.documents.matching.office import Office
from tests.documents.matching.test_judge import TWICE
from tests.factories import NOW
from tests.functions.admin_api.conftest import Ask, begin_session
from tests.functions.admin_api.gateway import TOKEN, gateway

HEADERS = {"Authorization": TOKEN}
schema = schemathesis.openapi.from_wsgi("/api/openapi.json", gateway, headers=HEADERS)
bounded = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
"""Besides the cases that Schemathesis makes of every operation's edges."""
UUID_LENGTH = 36
STATES = ("pending", "succeeded", "failed", None)
LETTERS = "/api/admin/dlq"
NOT_ALL_IN_THE_FORM = {
    *("POST /api/tasks", "POST /api/uploads", f"GET {LETTERS}", f"PATCH {LETTERS}/{{job_id}}/payload"),
    *(f"POST {LETTERS}/{{job_id}}/{word}" for word in ("retry", "resolve", "ignore")),
}
"""What a payload or a file's name must be is more than a form can say, how deep a page by its number may be, and which
version of a letter a change must name."""
WORDS = {f"POST /api/admin/reviews/{word}" for word in ("merge", "split", "accept", "dispute")}
"""To GET one of these is to ask for a review of that name, and there is none (404, not 405)."""

_known: dict[str, list[str]] = {}


@pytest.fixture
def world(ask: Ask, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> Office:
    """A tenant with a document in doubt, a task in each state, conversations and dead letters; it asks as it likes."""
    monkeypatch.setenv("CHANGES_AT_ONCE", "1000000")
    chosen.cache_clear()
    office = Office(database, admin, TWICE)
    office.match_all()
    admin.execute("UPDATE tenant SET slug = 'acme' WHERE id = %s", [office.tenant_id])
    tasks = [
        ask({"task_type": "echo", "payload": {}, "idempotency_key": str(state)}, path="/api/tasks").body["job_id"]
        for state in STATES
    ]
    for job_id, state in zip(tasks, STATES, strict=True):
        admin.execute(
            "UPDATE task SET status = %s, ended_at = %s, failed_at = %s, result = '[]' WHERE id = %s",
            [state, NOW, NOW, job_id],
        )
    sessions = [begin_session(admin) for _ in range(2)]
    work_id, die = uuid4(), dying(database, office.tenant_id)
    letters = [die(work_id=work_id, revision=revision, worker="tasks", task_type="echo") for revision in (1, 2)]
    letters.append(die(f"Bearer {work_id.hex} was refused"))
    _known["letter"] = [str(job_id) for job_id in letters]
    _known.update({"job_id": tasks, "session_id": sessions, "document_id": [str(id_) for id_ in office.ids]})
    return office


@schemathesis.hook
def before_call(context: object, case: Case[Any], kwargs: object) -> None:  # its form
    """What is well formed asks for what there is: our tenant, our ids, a type of task that is known, a first page."""
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    documents = _known["document_id"]
    ours: dict[str, Any] = {"tenant": "acme", "task_type": "echo", "document": documents[1], "cluster": documents[2]}
    for name in case.path_parameters or {}:
        ids = _known["letter" if case.operation.path.startswith(LETTERS) else name]
        given = case.path_parameters[name]
        if isinstance(given, str) and len(given) == UUID_LENGTH and given[0] in "0123456789abc":
            case.path_parameters[name] = ids[int(given[0], 16) % len(ids)]
    if isinstance(case.query, dict):
        case.query.pop("cursor", None)
        case.query.update({name: value for name, value in ours.items() if name in case.query})
    if case.headers is not None and "If-Match" in case.headers:
        case.headers["If-Match"] = '"1"'
    if isinstance(case.body, dict):
        case.body.update({name: value for name, value in ours.items() if isinstance(case.body.get(name), str)})
        if isinstance(case.body.get("documents"), list):
            case.body["documents"] = [documents[1], documents[2]]


@schema.parametrize()
@bounded
def test_whatever_is_asked_is_answered_as_promised(case: Case[Any], world: Office) -> None:
    assert world.ids
    label = case.operation.label
    left_out = [positive_data_acceptance] * (label in NOT_ALL_IN_THE_FORM) + [unsupported_method] * (label in WORDS)

    case.call_and_validate(headers=HEADERS, excluded_checks=left_out)


OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
]


@pytest.mark.parametrize(("label", "operation"), OPERATIONS, ids=[label for label, _ in OPERATIONS])
def test_each_answer_is_known_in_our_form_and_in_the_gateway_s(label: str, operation: dict[str, Any]) -> None:
    """The gateway of AWS says so, of every route: it is an HTTP API."""
    forms = {
        status: {
            media_type: form["schema"].get("$ref", "").rpartition("/")[2]
            for media_type, form in answer["content"].items()
        }
        for status, answer in operation["responses"].items()
        if int(status) >= 400
    }
    ours, theirs = {"application/problem+json": "Problem"}, {"application/json": "GatewayAnswer"}
    both = ours | theirs

    assert (forms.pop("401"), forms.pop("504")) == (theirs, theirs)
    assert [forms.pop(status) for status in ("403", "500", "503")] == [both] * 3
    changing = not label.startswith("GET ")
    assert [forms.pop(status) for status in ("413", "429")] == [both if changing else theirs] * 2
    assert all(form == ours for form in forms.values())
    form = document()["components"]["schemas"]["GatewayAnswer"]
    assert (form["required"], form["properties"]["message"]["type"]) == (["message"], "string")


def test_every_operation_is_asked() -> None:
    described = {
        f"{method.upper()} {path}" for path, operations in document()["paths"].items() for method in operations
    }

    asked = {found.ok().label for found in schema.get_all_operations() if isinstance(found, Ok)}
    assert described - asked == {"GET /api/openapi.json"}  # the description itself, which was read
