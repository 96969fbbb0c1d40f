"""Attacks on the API, such as injection, mass assignment and path traversal.

Other attacks are forged requests, unsupported methods, invalid bodies and similar names. Test cases are generated from
the API description, so new routes are covered automatically.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api import handler
from functions.admin_api.handler import document
from functions.admin_api.http import MAX_BODY_BYTES
from tests.delivery.harness import Context
from tests.functions.admin_api import conftest
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.permissions import (
    PERMISSIONS,
    ApiRequest,
    Resources,
    SampleTenant,
    method_and_path,
    operations_by_route,
    set_up_environment,
)

PLATFORM_ADMIN, ADMIN = "[admin tenant:*]", "[admin tenant:acme]"
IF_MATCH = {"if-match": '"1"'}
OPERATIONS = operations_by_route(document())
WITH_BODY = sorted(operation for operation, spec in OPERATIONS.items() if "requestBody" in spec)


@pytest.fixture
def sample_tenant(
    call_api: CallApi, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> SampleTenant:
    set_up_environment(monkeypatch)
    return SampleTenant(database, admin, "acme")


@pytest.fixture
def resources(sample_tenant: SampleTenant) -> Resources:
    return sample_tenant.resources()


def send(call_api: CallApi, operation: str, request: ApiRequest, **overrides: Any) -> ApiResponse:
    method, _ = method_and_path(operation)
    options: dict[str, Any] = {
        "method": method,
        "path": request.path,
        "query": dict(request.query),
        "groups": PLATFORM_ADMIN,
        "headers": IF_MATCH,
        **overrides,
    }
    return call_api(options.pop("body", request.body), **options)


# Injection

INJECTED = (
    "' OR '1'='1",
    "acme'; DROP TABLE dead_letter; --",
    "1) UNION SELECT slug, slug FROM tenant --",
    "%(tenant)s {} {0} %s %",
    "\\'; SELECT pg_sleep(9); --",
    "${jndi:ldap://127.0.0.1/a}",
    "$(id) `id` | id",
    "{{7*7}}<script>alert(1)</script>",
)


def parameters(operation: str, location: str) -> list[str]:
    specs = OPERATIONS[operation].get("parameters", ())
    return [parameter["name"] for parameter in specs if parameter["in"] == location]


def is_harmless(response: ApiResponse, *, of_a_filter: bool) -> bool:
    """Return True if a request was rejected, found nothing, or only stored the text."""
    if 400 <= response.status < 500:
        return True
    if not of_a_filter:
        return 200 <= response.status < 300
    if isinstance(response.body, str):  # a file with only a header
        return response.status == 200 and response.body.count("\r\n") == 1
    lists = [value for value in response.body.values() if isinstance(value, list)]
    return response.status == 200 and not any(lists)


def test_query_parameters_are_not_executed_as_sql(call_api: CallApi, resources: Resources, admin: Connection) -> None:
    before = tables(admin)
    for operation, permission in PERMISSIONS.items():
        request = permission.request(resources)
        for name in parameters(operation, "query"):
            for text in INJECTED:
                response = send(call_api, operation, request, query={**request.query, name: text})
                assert is_harmless(response, of_a_filter=True), (operation, name, text, response.status, response.body)

    assert tables(admin) == before


def test_ids_and_headers_are_not_executed_as_sql(call_api: CallApi, resources: Resources) -> None:
    for operation, permission in PERMISSIONS.items():
        request = permission.request(resources)
        for name in parameters(operation, "path"):
            for text in INJECTED:
                path = method_and_path(operation)[1].replace(f"{{{name}}}", text)
                assert send(call_api, operation, request, path=path).status in {404, 422}, (operation, name, text)
        for name in parameters(operation, "header"):
            for text in INJECTED:
                response = send(
                    call_api, operation, permission.request(Resources.missing()), headers={name.lower(): text}
                )
                assert response.status < 500, (operation, name, text)


def texts(body: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all strings in a body."""
    if isinstance(body, str):
        yield path
    members = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in members:
        yield from texts(value, (*path, name))


def with_text_at(body: Any, path: tuple[Any, ...], text: str) -> Any:
    body = json.loads(json.dumps(body))
    target = body
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = text
    return body


def test_body_texts_are_not_executed_as_sql(call_api: CallApi, sample_tenant: SampleTenant, admin: Connection) -> None:
    resources = sample_tenant.resources()
    before = tables(admin)
    for operation in WITH_BODY:
        request = PERMISSIONS[operation].request(resources)
        for position in texts(request.body):
            for text in INJECTED:
                response = send(call_api, operation, request, body=with_text_at(request.body, position, text))
                assert is_harmless(response, of_a_filter=False), (operation, position, text, response.status)

    assert tables(admin) == before


def tables(admin: Connection) -> object:
    """Return counts that an injected statement would change."""
    return admin.execute(
        "SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = 'public'), (SELECT count(*) FROM dead_letter),"
        " (SELECT count(*) FROM tenant)"
    ).fetchone()


# Mass assignment

EXTRA_FIELDS: dict[str, object] = {
    "tenant_id": "00000000-0000-0000-0000-000000000001",
    "user_id": "ann",
    "subject": "ann",
    "role": "admin",
    "groups": ["admin"],
    "status": "resolved",
    "version": 7,
    "resolved_by": "ann",
    "created_at": "2000-01-01T00:00:00Z",
    "__proto__": {"admin": True},
    "constructor": {},
    "": 1,
}


def test_unknown_body_fields_are_rejected(call_api: CallApi, sample_tenant: SampleTenant, admin: Connection) -> None:
    resources = sample_tenant.resources()
    for operation in WITH_BODY:
        request = PERMISSIONS[operation].request(resources)
        assert isinstance(request.body, dict), operation
        for name, value in EXTRA_FIELDS.items():
            if name in _fields(operation):
                continue
            response = send(call_api, operation, request, body={**request.body, name: value})
            assert response.status == 422, (operation, name, response.status)
            assert response.body["detail"].startswith("The body is invalid at"), (operation, name)
    assert admin.execute("SELECT count(*) FROM audit_entry").fetchone() == (0,)


def schema_names(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the schemas in a body's schema."""
    for name in ("anyOf", "oneOf", "allOf"):
        for schema_ in schema.get(name, ()):
            yield from schema_names(schema_)
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]


def _fields(operation: str) -> set[str]:
    """Return the names of the fields in an operation's body."""
    schema = OPERATIONS[operation]["requestBody"]["content"]["application/json"]["schema"]
    return {name for form in schema_names(schema) for name in document()["components"]["schemas"][form]["properties"]}


def test_body_schemas_forbid_additional_properties() -> None:
    schemas = document()["components"]["schemas"]
    for operation in WITH_BODY:
        content = OPERATIONS[operation]["requestBody"]["content"]
        names = [*schema_names(content["application/json"]["schema"])]
        assert names, operation
        for name in names:
            assert schemas[name]["additionalProperties"] is False, (operation, name)


# Paths

TRAVERSALS = (
    *("..", ".", "../..", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f", "..\\..", "....//", "%252e%252e%252f"),
    *("/etc/passwd", "file:///etc/passwd", "..;/", "\uff0e\uff0e/", "x" * 5000, "\x00", "%00", " ", "*", "-1", "0"),
)


def test_path_traversal_in_ids_is_rejected(call_api: CallApi, resources: Resources) -> None:
    for operation, permission in PERMISSIONS.items():
        for name in parameters(operation, "path"):
            for text in TRAVERSALS:
                path = method_and_path(operation)[1].replace(f"{{{name}}}", text)
                response = send(call_api, operation, permission.request(resources), path=path)
                assert response.status in {404, 405, 422}, (operation, text, response.status)
                assert text not in response.text or text in {".", "0", " "}, (operation, text)


def test_paths_are_not_normalized(call_api: CallApi, sample_tenant: SampleTenant) -> None:
    for path in ("/api//tasks", "/api/tasks/", "/API/TASKS", "/api/./tasks", "/api/x/../tasks", "/api/tasks;x", "/"):
        response = call_api("", method="GET", path=path, groups=PLATFORM_ADMIN, query={"tenant": "acme"})
        assert response.status in {404, 405}, path


# Methods

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")


def test_unsupported_method_returns_405_with_allow(call_api: CallApi, resources: Resources) -> None:
    templates = document()["paths"]
    for operation, permission in PERMISSIONS.items():
        request = permission.request(resources)
        has = {method.upper() for method in templates[method_and_path(operation)[1]]}
        as_an_id = {  # methods of routes on which the last segment is an id
            method.upper()
            for path, methods in templates.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.path)
            for method in methods
        }
        for method in set(METHODS) - has - as_an_id:
            response = send(call_api, operation, request, method=method)
            assert response.status == 405, (operation, method, response.status)
            assert has <= set(response.headers["Allow"].split(", ")), (operation, method)
            assert "Access-Control-Allow-Origin" not in response.headers


def test_method_override_headers_are_not_supported(call_api: CallApi, resources: Resources) -> None:
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        response = call_api(
            "",
            method="GET",
            path=f"/api/chat/sessions/{resources.session}",
            groups=PLATFORM_ADMIN,
            headers={name.lower(): "DELETE"},
            query={"_method": "DELETE"},
        )
        assert response.status == 422
    assert (
        call_api("", method="GET", path=f"/api/chat/sessions/{resources.session}", groups=PLATFORM_ADMIN).status == 200
    )


# Cross-site requests

FORM_CONTENT_TYPES = (
    "text/plain",
    "multipart/form-data; boundary=x",
    "text/html",
    "application/xml",
    "application/jsonp",
    "x",
)


def test_content_types_of_html_forms_are_rejected(call_api: CallApi, resources: Resources) -> None:
    for operation in WITH_BODY:
        for declared in FORM_CONTENT_TYPES:
            response = send(
                call_api,
                operation,
                PERMISSIONS[operation].request(resources),
                headers={**IF_MATCH, "content-type": declared},
            )
            assert response.status == 415, (operation, declared, response.status)


def test_cookies_are_neither_accepted_nor_set(call_api: CallApi, resources: Resources) -> None:
    event = conftest.event()
    token = event["headers"].pop("authorization")
    event["cookies"], event["headers"]["cookie"] = [f"Authorization={token}", f"token={token}"], f"token={token}"
    del event["requestContext"]["authorizer"]
    assert handler.handle(event, Context())["statusCode"] == 401

    for operation, permission in PERMISSIONS.items():
        method, _ = method_and_path(operation)
        request = permission.request(resources)
        event = conftest.event()
        event["rawPath"] = event["requestContext"]["http"]["path"] = request.path
        event["requestContext"]["http"]["method"] = method
        response = handler.handle(event, Context())
        assert not response.get("cookies"), operation
        assert "set-cookie" not in {name.lower() for name in response["headers"]}, operation


def test_cors_preflight_is_rejected(call_api: CallApi, resources: Resources) -> None:
    for operation, permission in PERMISSIONS.items():
        method, _ = method_and_path(operation)
        preflight = {"origin": "https://evil.example", "access-control-request-method": method}
        response = send(call_api, operation, permission.request(resources), method="OPTIONS", headers=preflight)
        assert response.status == 405, operation
        assert not [name for name in response.headers if name.lower().startswith("access-control-")], operation


# Headers

BREAKS = ("x\r\nSet-Cookie: a=b", "x\nLocation: https://evil.example", "x\r\n\r\n<html>", "\u560d\u560aX: y")


def test_request_text_never_reaches_response_headers(call_api: CallApi, resources: Resources) -> None:
    for operation, permission in PERMISSIONS.items():
        request = permission.request(resources)
        for text in BREAKS:
            responses = [
                send(call_api, operation, request, headers={"if-none-match": text, "if-match": text, "host": text}),
                send(call_api, operation, request, path=f"{request.path}{text}"),
                send(call_api, operation, request, query={**request.query, "cursor": text}),
            ]
            for response in responses:
                assert response.status < 500, (operation, text)
                for name, value in response.headers.items():
                    assert not re.search(r"[\r\n]|evil|Set-Cookie", f"{name}{value}"), (operation, text)


# Bodies


def test_oversized_or_invalid_json_is_rejected(call_api: CallApi, resources: Resources) -> None:
    for operation in WITH_BODY:
        request = PERMISSIONS[operation].request(resources)
        for body, status in (
            (json.dumps({"notes": "x" * MAX_BODY_BYTES}), 413),
            ('{"notes":' * 100_000, 400),
            ("[" * 100_000 + "]" * 100_000, 400),
            ('{"notes":' * 5000 + "1" + "}" * 5000, 400),
            ("{", 400),
            ('{"notes": NaN}', 400),
            ('{"notes": "\\ud800"}', 400),
            (b"\xff\xfe{\x00}\x00", 400),
        ):
            response = send(call_api, operation, request, body=body)
            assert response.status == status, (operation, body[:20], response.status)


def test_duplicate_json_names_are_rejected(call_api: CallApi, resources: Resources) -> None:
    """Parsers disagree about which of two values to use."""
    for operation in WITH_BODY:
        request = PERMISSIONS[operation].request(resources)
        assert isinstance(request.body, dict)
        duplicate_body = json.dumps({**request.body, "notes": "x"}).removesuffix("}") + ', "notes": "y"}'
        nested_duplicate = '{"payload": {"deep": [{"a": 1, "a": 2}]}}'
        for body in (duplicate_body, nested_duplicate):
            response = send(call_api, operation, request, body=body)
            error = "The body must be a JSON object with unique field names."
            assert (operation, response.status, response.body["detail"]) == (operation, 400, error)


def test_repeated_parameter_is_rejected(call_api: CallApi, sample_tenant: SampleTenant) -> None:
    for operation, permission in PERMISSIONS.items():
        if permission.reach == "tenant" and "tenant" in parameters(operation, "query"):
            request = permission.request(sample_tenant.resources())
            response = send(call_api, operation, request, query={**request.query, "tenant": "acme,acme"})
            assert response.status == 422, operation


# Names

SIMILAR_NAMES = (
    *("ACME", "Acme", "acme ", " acme", "acme\n", "acme\t", "acme\x00", "acme\u200b", "\u202eemca", "acm\u0435"),
    *("\uff41\uff43\uff4d\uff45", "acme\u0301", "acme/", "acme%20", "acme,", "*", "-", "acme*", "ac", ""),
)


def test_similar_tenant_name_grants_no_access(call_api: CallApi, sample_tenant: SampleTenant) -> None:
    resources = sample_tenant.resources()
    for operation, permission in PERMISSIONS.items():
        if permission.reach != "tenant":
            continue
        request = permission.request(resources)
        for name in SIMILAR_NAMES:
            if "{tenant}" in operation:
                if name == "acme\n":  # the router ignores a line break at the end of a path
                    continue
                path = request.path.replace(f"/tenants/{resources.slug}", f"/tenants/{name}", 1)
                response = send(call_api, operation, request, path=path, groups=ADMIN)
            elif "tenant" in request.query:
                response = send(call_api, operation, request, query={**request.query, "tenant": name}, groups=ADMIN)
            else:
                assert isinstance(request.body, dict)
                response = send(call_api, operation, request, body={**request.body, "tenant": name}, groups=ADMIN)
            assert response.status in {403, 404, 405, 422}, (operation, name, response.status)


def test_similar_group_name_grants_no_access(call_api: CallApi, sample_tenant: SampleTenant) -> None:
    request = PERMISSIONS["GET /api/admin/dlq"].request(sample_tenant.resources())
    for name in SIMILAR_NAMES:
        if name != "*":
            response = send(call_api, "GET /api/admin/dlq", request, groups=["viewer", f"tenant:{name}"])
            assert response.status == 403, name
    for role in ("Viewer", "VIEWER", "viewer ", "v\u0456ewer", "\uff56iewer", "viewer\x00", "viewers", "view", "none"):
        assert send(call_api, "GET /api/admin/dlq", request, groups=[role, "tenant:acme"]).status == 403, role


# Echoes

MARK = "h0rse-battery-staple"


def test_rejected_input_is_neither_returned_nor_logged(
    call_api: CallApi, resources: Resources, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for operation in WITH_BODY:
        request = PERMISSIONS[operation].request(resources)
        assert isinstance(request.body, dict)
        bodies: tuple[object, ...] = (
            {**request.body, MARK: MARK},
            {**request.body, "payload": MARK},
            {**request.body, "payload": [MARK]},
            {**request.body, "notes": MARK + "\n", "reason": [MARK]},
            {name: [MARK] for name in [*request.body, MARK]},
            json.dumps({MARK: MARK})[:-1],
        )
        for body in bodies:
            response = send(call_api, operation, request, body=body)
            assert 400 <= response.status < 500, (operation, body, response.status)
            assert MARK not in response.text, (operation, response.text)
            assert MARK not in str(response.headers), operation

    output = capsys.readouterr()
    assert MARK not in output.out + output.err + caplog.text
