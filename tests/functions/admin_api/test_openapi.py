"""Schemathesis tests the API against its OpenAPI description."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings

from counterfoil.db import Connection, Database
from counterfoil.documents import files
from counterfoil.settings import settings as chosen
from counterfoil.tasks.chat import CHAT_COMPLETION
from functions.admin_api.handler import document
from functions.admin_api.http import encode_cursor
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.documents.einvoice_samples import pdf
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.matching.test_judge import TWICE
from tests.factories import NOW, make_held_mail, make_jobs, make_pool, make_profile, make_shard
from tests.functions.admin_api.conftest import SIGN_IN, CallApi, begin_session
from tests.functions.admin_api.gateway import TOKEN, gateway
from tests.functions.admin_api.test_auth_limits import bulk_operation, purge_of

if TYPE_CHECKING:  # importing Schemathesis takes a second in each test process
    from schemathesis import Case
    from schemathesis.schemas import BaseSchema

HEADERS = {"Authorization": TOKEN}
bounded = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
"""Settings for the random examples of an operation, in addition to Schemathesis's edge cases."""
UUID_LENGTH = 36
STATES = ("pending", "succeeded", "failed", None)
DEAD_LETTERS = "/api/admin/dlq"
BULK = [f"POST {DEAD_LETTERS}/bulk-{word}" for word in ("retry", "resolve", "ignore")]
NOT_FULLY_DESCRIBED = {
    *("POST /api/tasks", "POST /api/uploads", f"GET {DEAD_LETTERS}", f"PATCH {DEAD_LETTERS}/{{job_id}}/payload"),
    *(f"POST {DEAD_LETTERS}/{{job_id}}/{word}" for word in ("retry", "resolve", "ignore")),
    *(f"POST /api/admin/queues/{{worker}}/{word}" for word in ("pause", "resume")),
    *BULK,
    "POST /api/admin/operations",
    "PATCH /api/admin/operations/{operation_id}",
    *(f"POST /api/admin/operations/{{operation_id}}/{word}" for word in ("pause", "resume", "cancel")),
    "PUT /api/users/{user_id}/profile",
    "POST /api/admin/offers",
    "PUT /api/users/{user_id}/blocks/{blocked_id}",
    "GET /api/admin/clusters",  # a cursor is valid only for its sort order
    "GET /api/uploads",  # `key` excludes `tenant` and `cursor`
    "POST /api/admin/variances/accept",  # both amounts are required, or neither
    "POST /api/admin/variances/dispute",
}
"""Operations with rules that a schema cannot express.

- Payloads, file names and time zones must be valid.
- Numbered pages have a maximum depth.
- A change requires the current version.
- Bulk operations require either ids or a filter.
- Only platform admins can pause queues.
- Users cannot block themselves.
"""
READ_AS_IDS = {
    *(f"POST /api/admin/reviews/{word}" for word in ("merge", "split")),
    f"DELETE {DEAD_LETTERS}/purge",
    *BULK,
}
"""Operations for which GET returns 404 instead of 405, because a GET route reads the last path segment as an id."""

_known: dict[str, list[str]] = {}
_answered: set[tuple[str, str, int]] = set()
"""Operation, task type or `cursor`, and status of each response to a valid task or page request."""


@pytest.fixture(scope="module")
def described_api() -> Iterator["BaseSchema"]:
    """Schemathesis schema of the API description that the API returns."""
    import schemathesis

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OIDC", json.dumps(SIGN_IN))
        chosen.cache_clear()
        schemathesis.hook(before_call)
        yield schemathesis.openapi.from_wsgi("/api/openapi.json", gateway, headers=HEADERS)
        schemathesis.hooks.unregister(before_call)
    chosen.cache_clear()


@pytest.fixture
def prepared_tenant(
    call_api: CallApi, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> TenantHarness:
    """A tenant with all kinds of resources and without rate limits."""
    monkeypatch.setenv("RATE_LIMIT_BURST", "1000000")
    monkeypatch.setenv("READS_AT_ONCE", "1000000")
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    chosen.cache_clear()
    harness = TenantHarness(database, admin, TWICE)
    harness.match_all()
    admin.execute("UPDATE tenant SET slug = 'acme' WHERE id = %s", [harness.tenant_id])
    tasks = [
        call_api({"task_type": "echo", "payload": {}, "idempotency_key": str(state)}, path="/api/tasks").body["job_id"]
        for state in STATES
    ]
    for job_id, state in zip(tasks, STATES, strict=True):
        admin.execute(
            "UPDATE task SET status = %s, ended_at = %s, failed_at = %s, result = '[]' WHERE id = %s",
            [state, NOW, NOW, job_id],
        )
    sessions = [begin_session(admin) for _ in range(2)]
    work_id, add_dead_letter = uuid4(), dead_letter_factory(database, harness.tenant_id)
    dead_letter_ids = [
        add_dead_letter(work_id=work_id, revision=revision, worker="tasks", task_type="echo") for revision in (1, 2)
    ]
    dead_letter_ids.append(add_dead_letter(f"Bearer {work_id.hex} was refused"))
    _known["worker"], _known["tenant"] = ["tasks"], ["acme"]
    _known["dead_letter"] = [str(job_id) for job_id in dead_letter_ids]
    _known["operation_id"] = [str(bulk_operation(harness)), str(purge_of(harness))]
    _known.update({"job_id": tasks, "session_id": sessions, "document_id": [str(id_) for id_ in harness.ids]})
    _known["cluster_id"] = _known["document_id"]
    _known["mail_id"] = [str(make_held_mail(admin, harness.tenant_id)) for _ in range(2)]
    _known.update(people(admin, harness.tenant_id))
    monkeypatch.setattr(files, "read", lambda _: pdf(text="Rechnung 17", pages=2))
    _answered.clear()
    return harness


def people(admin: Connection, tenant: UUID) -> dict[str, list[str]]:
    """Create two users in a pool that has no offers yet.

    Return their ids by path parameter.
    """
    external_ids, pool = [uuid4() for _ in range(2)], make_pool(admin, tenant)
    users = [make_profile(admin, tenant, external_id=external_id) for external_id in external_ids]
    make_jobs(admin, make_shard(admin, tenant, users, pool_id=pool))
    return {"user_id": list(map(str, external_ids)), "blocked_id": [str(uuid4())], "pool_id": [str(pool)]}


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode(errors="surrogatepass")).digest())


def _task_type(text: str) -> str:
    return ("echo", CHAT_COMPLETION.name)[_number(text) % 2]


def _task(text: str, payload: Any) -> dict[str, Any]:
    """Return a task type and its payload.

    A chat message has the given text, and a new, existing or unknown conversation.
    """
    if _task_type(f"{text} {payload}") != CHAT_COMPLETION.name:
        return {"task_type": "echo", "payload": payload}
    session = (None, *_known["session_id"], str(UUID(int=_number(text) % 2**128)))[_number(text) // 2 % 4]
    content = {"message": text} | ({} if session is None else {"session_id": session})
    return {"task_type": CHAT_COMPLETION.name, "payload": content}


def _cursor(text: str) -> str:
    """Return a cursor with a recent or extreme time, and a known or unknown id."""
    number = _number(text)
    time = (NOW, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))[number % 3]
    known = [*_known["job_id"], *_known["session_id"], *_known["document_id"], *_known["dead_letter"]]
    id_ = (known[number // 3 % len(known)], str(UUID(int=number % 2**128)))[number // 2 % 2]
    return encode_cursor((time, id_)) or ""


def _parameters(query: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    replacements: dict[str, Callable[[str], str]] = {"task_type": _task_type, "cursor": _cursor}
    return {
        name: replacements[name](str(text)) if name in replacements else own.get(name, text)
        for name, text in query.items()
    }


def before_call(context: object, case: "Case[Any]", kwargs: object) -> None:  # signature required by Schemathesis
    """Insert existing tenants, ids, task types and cursors into a valid request."""
    from schemathesis import GenerationMode

    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    documents = _known["document_id"]
    own: dict[str, Any] = {"tenant": "acme", "document": documents[1], "cluster": documents[2]}
    for name in case.path_parameters or {}:
        if name == "number":  # the file has two pages
            case.path_parameters[name] = int(case.path_parameters[name]) % 3 + 1
            continue
        is_dead_letter = case.operation.path.startswith(DEAD_LETTERS) and name != "operation_id"
        ids = _known.get("dead_letter" if is_dead_letter else name, [])
        text = case.path_parameters[name]
        if ids and isinstance(text, str) and len(text) == UUID_LENGTH and text[0] in "0123456789abc":
            case.path_parameters[name] = ids[int(text[0], 16) % len(ids)]
    if isinstance(case.query, dict):
        case.query.update(_parameters(case.query, own))
    if "If-Match" in case.headers:
        case.headers["If-Match"] = '"1"'
    if isinstance(case.body, dict):
        case.body.update({name: value for name, value in own.items() if isinstance(case.body.get(name), str)})
        if case.operation.label == "POST /api/tasks":
            case.body |= _task(str(case.body["task_type"]), case.body["payload"])
        if isinstance(case.body.get("documents"), list):
            case.body["documents"] = [documents[1], documents[2]]


OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
]


def test_reads_match_the_description(
    described_api: "BaseSchema", prepared_tenant: TenantHarness, subtests: pytest.Subtests
) -> None:
    for label, matches in operation_checks(described_api.include(method="GET")):
        with subtests.test(operation=label):
            matches()
    assert_reached()


@pytest.mark.parametrize("label", [label for label, _ in OPERATIONS if not label.startswith("GET ")])
def test_changes_match_the_description(label: str, described_api: "BaseSchema", prepared_tenant: TenantHarness) -> None:
    """Each operation starts with resources that no other operation has changed."""
    method, path = label.split(" ")
    ((_, matches),) = operation_checks(described_api.include(method=method, path=path))
    matches()
    assert_reached()
    if label == "POST /api/tasks":
        assert {kind for _, kind, _ in _answered} == {"echo", CHAT_COMPLETION.name}


def operation_checks(schema: "BaseSchema") -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield each operation's label and a function that checks its responses."""
    from schemathesis.core.result import Ok
    from schemathesis.pytest.lazy import get_all_tests

    for result in get_all_tests(schema=schema, test_func=validate_response, settings=bounded, given_kwargs={}):
        assert isinstance(result, Ok)
        operation, matches = result.ok()
        yield operation.label, matches


def assert_reached() -> None:
    """Assert that valid requests reached each operation and kind.

    At least one request per operation and kind must have succeeded or conflicted.
    """
    permitted = {(label, kind) for label, kind, status in _answered if status < 500 and status != 403}
    assert permitted == {(label, kind) for label, kind, status in _answered if status < 300 or status == 409}


def _is_valid_as_sent(case: "Case[Any]") -> bool:
    """Return True if a case generated as invalid is valid when sent.

    HEADERS adds a missing token, and parameters with empty values are not sent.
    """
    from schemathesis.core.parameters import ParameterLocation

    assert case.meta is not None
    mutations = getattr(case.meta.phase.data, "mutations", ())
    declared = {parameter.name for parameter in case.operation.query}
    sent = {name for name, value in (case.query or {}).items() if value not in ([], {})}
    harmless = {(ParameterLocation.HEADER, ("required",))}
    if sent <= declared:
        harmless.add((ParameterLocation.QUERY, ("additionalProperties",)))
    return bool(mutations) and all(
        (mutation.parameter_location, mutation.keywords) in harmless for mutation in mutations
    )


def validate_response(case: "Case[Any]") -> None:
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import (
        negative_data_rejection,
        positive_data_acceptance,
        unsupported_method,
    )

    label = case.operation.label
    excluded: list[Callable[..., Any]] = [positive_data_acceptance] * (label in NOT_FULLY_DESCRIBED)
    excluded += [unsupported_method] * (label in READ_AS_IDS) + [negative_data_rejection] * _is_valid_as_sent(case)

    response = case.call_and_validate(headers=HEADERS, excluded_checks=excluded)

    assert case.meta is not None
    if case.meta.generation.mode is GenerationMode.POSITIVE:
        body: Any = case.body
        if label == "POST /api/tasks":
            _answered.add((label, body["task_type"], response.status_code))
        elif "cursor" in (case.query or {}):
            _answered.add((label, "cursor", response.status_code))


@pytest.mark.parametrize(("label", "operation"), OPERATIONS, ids=[label for label, _ in OPERATIONS])
def test_error_formats_of_api_and_gateway_are_described(label: str, operation: dict[str, Any]) -> None:
    """The gateway's own errors have the format of an AWS HTTP API."""
    content_types = {
        status: {
            media_type: form["schema"].get("$ref", "").rpartition("/")[2]
            for media_type, form in response["content"].items()
        }
        for status, response in operation["responses"].items()
        if int(status) >= 400
    }
    api_errors, gateway_errors = {"application/problem+json": "Problem"}, {"application/json": "GatewayError"}
    expected = api_errors | gateway_errors

    assert content_types.pop("504") == gateway_errors
    assert [content_types.pop(status) for status in ("401", "403", "500", "503")] == [expected] * 4
    changing = not label.startswith("GET ")
    assert [content_types.pop(status) for status in ("413", "429")] == [expected if changing else gateway_errors] * 2
    assert all(form == api_errors for form in content_types.values())
    form = document()["components"]["schemas"]["GatewayError"]
    assert (form["required"], form["properties"]["message"]["type"]) == (["message"], "string")


def test_schema_has_every_operation(described_api: "BaseSchema") -> None:
    from schemathesis.core.result import Ok

    described = {
        f"{method.upper()} {path}" for path, operations in document()["paths"].items() for method in operations
    }

    generated = {result.ok().label for result in described_api.get_all_operations() if isinstance(result, Ok)}
    assert described - generated == {"GET /api/openapi.json"}  # the route that returns the description
