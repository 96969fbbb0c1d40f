"""What attackers try: injection, mass assignment, traversal, forged requests, odd methods, bodies and names.

The description says what there is to try: a route that is added later is tried, too.
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
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.rights import RIGHTS, Asked, Things, World, described, parts, surround

EVERYTHING, OURS = "[admin tenant:*]", "[admin tenant:acme]"
SEEN = {"if-match": '"1"'}
OPERATIONS = described(document())
WITH_BODY = sorted(operation for operation, told in OPERATIONS.items() if "requestBody" in told)


@pytest.fixture
def world(ask: Ask, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> World:
    surround(monkeypatch)
    return World(database, admin, "acme")


@pytest.fixture
def things(world: World) -> Things:
    return world.things()


def sent(ask: Ask, operation: str, asked: Asked, **changed: Any) -> Answer:
    method, _ = parts(operation)
    said: dict[str, Any] = {
        "method": method,
        "path": asked.path,
        "query": dict(asked.query),
        "groups": EVERYTHING,
        "headers": SEEN,
        **changed,
    }
    return ask(said.pop("body", asked.body), **said)


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


def parameters(operation: str, where: str) -> list[str]:
    found = OPERATIONS[operation].get("parameters", ())
    return [parameter["name"] for parameter in found if parameter["in"] == where]


def is_harmless(answer: Answer, *, of_a_filter: bool) -> bool:
    """Refused, or nothing found; what is stored as a text may be stored."""
    if 400 <= answer.status < 500:
        return True
    if not of_a_filter:
        return 200 <= answer.status < 300
    if isinstance(answer.body, str):  # a file, of its head alone
        return answer.status == 200 and answer.body.count("\r\n") == 1
    lists = [value for value in answer.body.values() if isinstance(value, list)]
    return answer.status == 200 and not any(lists)


def test_no_parameter_of_a_query_is_a_statement(ask: Ask, things: Things, admin: Connection) -> None:
    before = tables(admin)
    for operation, right in RIGHTS.items():
        asked = right.ask(things)
        for name in parameters(operation, "query"):
            for text in INJECTED:
                answer = sent(ask, operation, asked, query={**asked.query, name: text})
                assert is_harmless(answer, of_a_filter=True), (operation, name, text, answer.status, answer.body)

    assert tables(admin) == before


def test_no_id_and_no_header_is_a_statement(ask: Ask, things: Things) -> None:
    for operation, right in RIGHTS.items():
        asked = right.ask(things)
        for name in parameters(operation, "path"):
            for text in INJECTED:
                path = parts(operation)[1].replace(f"{{{name}}}", text)
                assert sent(ask, operation, asked, path=path).status in {404, 422}, (operation, name, text)
        for name in parameters(operation, "header"):
            for text in INJECTED:
                answer = sent(ask, operation, right.ask(Things.gone()), headers={name.lower(): text})
                assert answer.status < 500, (operation, name, text)


def texts(body: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a body where a text stands."""
    if isinstance(body, str):
        yield path
    members = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in members:
        yield from texts(value, (*path, name))


def put(body: Any, path: tuple[Any, ...], text: str) -> Any:
    body = json.loads(json.dumps(body))
    place = body
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = text
    return body


def test_no_text_of_a_body_is_a_statement(ask: Ask, world: World, admin: Connection) -> None:
    things = world.things()
    before = tables(admin)
    for operation in WITH_BODY:
        asked = RIGHTS[operation].ask(things)
        for place in texts(asked.body):
            for text in INJECTED:
                answer = sent(ask, operation, asked, body=put(asked.body, place, text))
                assert is_harmless(answer, of_a_filter=False), (operation, place, text, answer.status)

    assert tables(admin) == before


def tables(admin: Connection) -> object:
    """What an injected statement would take away, or let out."""
    return admin.execute(
        "SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = 'public'), (SELECT count(*) FROM dead_letter),"
        " (SELECT count(*) FROM tenant)"
    ).fetchone()


# Mass assignment

MORE: dict[str, object] = {
    "tenant_id": "00000000-0000-0000-0000-000000000001",
    "user_id": "somebody",
    "subject": "somebody",
    "role": "admin",
    "groups": ["admin"],
    "status": "resolved",
    "version": 7,
    "resolved_by": "somebody",
    "created_at": "2000-01-01T00:00:00Z",
    "__proto__": {"admin": True},
    "constructor": {},
    "": 1,
}


def test_what_a_form_does_not_know_is_refused(ask: Ask, world: World, admin: Connection) -> None:
    things = world.things()
    for operation in WITH_BODY:
        asked = RIGHTS[operation].ask(things)
        assert isinstance(asked.body, dict), operation
        for name, value in MORE.items():
            if name in _fields(operation):
                continue
            answer = sent(ask, operation, asked, body={**asked.body, name: value})
            assert answer.status == 422, (operation, name, answer.status)
            assert answer.body["detail"].startswith("The body is wrong at"), (operation, name)
    assert admin.execute("SELECT count(*) FROM audit_entry").fetchone() == (0,)


def forms(schema: Mapping[str, Any]) -> Iterator[str]:
    """The forms that a body may have, by name."""
    for name in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(name, ()):
            yield from forms(one)
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]


def _fields(operation: str) -> set[str]:
    """Names of the fields of an operation's body."""
    schema = OPERATIONS[operation]["requestBody"]["content"]["application/json"]["schema"]
    return {name for form in forms(schema) for name in document()["components"]["schemas"][form]["properties"]}


def test_every_form_of_a_body_is_closed() -> None:
    schemas = document()["components"]["schemas"]
    for operation in WITH_BODY:
        content = OPERATIONS[operation]["requestBody"]["content"]
        named = [*forms(content["application/json"]["schema"])]
        assert named, operation
        for name in named:
            assert schemas[name]["additionalProperties"] is False, (operation, name)


# Paths

ELSEWHERE = (
    *("..", ".", "../..", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f", "..\\..", "....//", "%252e%252e%252f"),
    *("/etc/passwd", "file:///etc/passwd", "..;/", "\uff0e\uff0e/", "x" * 5000, "\x00", "%00", " ", "*", "-1", "0"),
)


def test_no_id_leads_elsewhere(ask: Ask, things: Things) -> None:
    for operation, right in RIGHTS.items():
        for name in parameters(operation, "path"):
            for text in ELSEWHERE:
                path = parts(operation)[1].replace(f"{{{name}}}", text)
                answer = sent(ask, operation, right.ask(things), path=path)
                assert answer.status in {404, 405, 422}, (operation, text, answer.status)
                assert text not in answer.text or text in {".", "0", " "}, (operation, text)


def test_a_path_is_taken_as_it_is(ask: Ask, world: World) -> None:
    for path in ("/api//tasks", "/api/tasks/", "/API/TASKS", "/api/./tasks", "/api/x/../tasks", "/api/tasks;x", "/"):
        answer = ask("", method="GET", path=path, groups=EVERYTHING, query={"tenant": "acme"})
        assert answer.status in {404, 405}, path


# Methods

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")


def test_a_method_that_a_path_has_not_is_refused_and_the_others_named(ask: Ask, things: Things) -> None:
    templates = document()["paths"]
    for operation, right in RIGHTS.items():
        asked = right.ask(things)
        has = {method.upper() for method in templates[parts(operation)[1]]}
        as_an_id = {  # of another path, where the word is taken for an id, and there is none
            method.upper()
            for path, methods in templates.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), asked.path)
            for method in methods
        }
        for method in set(METHODS) - has - as_an_id:
            answer = sent(ask, operation, asked, method=method)
            assert answer.status == 405, (operation, method, answer.status)
            assert has <= set(answer.headers["Allow"].split(", ")), (operation, method)
            assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_header_names_no_other_method(ask: Ask, things: Things) -> None:
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        answer = ask(
            "",
            method="GET",
            path=f"/api/chat/sessions/{things.session}",
            groups=EVERYTHING,
            headers={name.lower(): "DELETE"},
            query={"_method": "DELETE"},
        )
        assert answer.status == 422
    assert ask("", method="GET", path=f"/api/chat/sessions/{things.session}", groups=EVERYTHING).status == 200


# What a browser can be made to send

FORMS = ("text/plain", "multipart/form-data; boundary=x", "text/html", "application/xml", "application/jsonp", "x")


def test_what_a_form_of_another_site_sends_is_not_read(ask: Ask, things: Things) -> None:
    for operation in WITH_BODY:
        for declared in FORMS:
            answer = sent(ask, operation, RIGHTS[operation].ask(things), headers={**SEEN, "content-type": declared})
            assert answer.status == 415, (operation, declared, answer.status)


def test_a_cookie_is_no_token_and_none_is_set(ask: Ask, things: Things) -> None:
    event = conftest.event()
    token = event["headers"].pop("authorization")
    event["cookies"], event["headers"]["cookie"] = [f"Authorization={token}", f"token={token}"], f"token={token}"
    del event["requestContext"]["authorizer"]
    assert handler.handle(event, Context())["statusCode"] == 401

    for operation, right in RIGHTS.items():
        method, _ = parts(operation)
        asked = right.ask(things)
        event = conftest.event()
        event["rawPath"] = event["requestContext"]["http"]["path"] = asked.path
        event["requestContext"]["http"]["method"] = method
        answer = handler.handle(event, Context())
        assert not answer.get("cookies"), operation
        assert "set-cookie" not in {name.lower() for name in answer["headers"]}, operation


def test_another_site_is_not_told_that_it_may_ask(ask: Ask, things: Things) -> None:
    for operation, right in RIGHTS.items():
        method, _ = parts(operation)
        preflight = {"origin": "https://evil.example", "access-control-request-method": method}
        answer = sent(ask, operation, right.ask(things), method="OPTIONS", headers=preflight)
        assert answer.status == 405, operation
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")], operation


# Headers

BREAKS = ("x\r\nSet-Cookie: a=b", "x\nLocation: https://evil.example", "x\r\n\r\n<html>", "\u560d\u560aX: y")


def test_nothing_that_is_asked_gets_into_a_header(ask: Ask, things: Things) -> None:
    for operation, right in RIGHTS.items():
        asked = right.ask(things)
        for text in BREAKS:
            answers = [
                sent(ask, operation, asked, headers={"if-none-match": text, "if-match": text, "host": text}),
                sent(ask, operation, asked, path=f"{asked.path}{text}"),
                sent(ask, operation, asked, query={**asked.query, "cursor": text}),
            ]
            for answer in answers:
                assert answer.status < 500, (operation, text)
                for name, value in answer.headers.items():
                    assert not re.search(r"[\r\n]|evil|Set-Cookie", f"{name}{value}"), (operation, text)


# Bodies


def test_a_body_that_is_too_large_or_no_json_is_not_read(ask: Ask, things: Things) -> None:
    for operation in WITH_BODY:
        asked = RIGHTS[operation].ask(things)
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
            answer = sent(ask, operation, asked, body=body)
            assert answer.status == status, (operation, body[:20], answer.status)


def test_a_name_stands_once_in_an_object(ask: Ask, things: Things) -> None:
    """Of two, who looks at it before, or after, may take the other one."""
    for operation in WITH_BODY:
        asked = RIGHTS[operation].ask(things)
        assert isinstance(asked.body, dict)
        twice = json.dumps({**asked.body, "notes": "x"}).removesuffix("}") + ', "notes": "y"}'
        inside = '{"payload": {"deep": [{"a": 1, "a": 2}]}}'
        for body in (twice, inside):
            answer = sent(ask, operation, asked, body=body)
            said = "The body must be a JSON object with unique names."
            assert (operation, answer.status, answer.body["detail"]) == (operation, 400, said)


def test_a_parameter_that_is_given_twice_is_refused(ask: Ask, world: World) -> None:
    for operation, right in RIGHTS.items():
        if right.reach == "tenant" and "tenant" in parameters(operation, "query"):
            asked = right.ask(world.things())
            answer = sent(ask, operation, asked, query={**asked.query, "tenant": "acme,acme"})
            assert answer.status == 422, operation


# Names

ALMOST = (
    *("ACME", "Acme", "acme ", " acme", "acme\n", "acme\t", "acme\x00", "acme\u200b", "\u202eemca", "acm\u0435"),
    *("\uff41\uff43\uff4d\uff45", "acme\u0301", "acme/", "acme%20", "acme,", "*", "-", "acme*", "ac", ""),
)


def test_what_looks_like_a_tenant_is_not_the_tenant(ask: Ask, world: World) -> None:
    things = world.things()
    for operation, right in RIGHTS.items():
        if right.reach != "tenant":
            continue
        asked = right.ask(things)
        for name in ALMOST:
            if "{tenant}" in operation:
                if name == "acme\n":  # the router drops a line break at the end of a path
                    continue
                path = asked.path.replace(f"/tenants/{things.slug}", f"/tenants/{name}", 1)
                answer = sent(ask, operation, asked, path=path, groups=OURS)
            elif "tenant" in asked.query:
                answer = sent(ask, operation, asked, query={**asked.query, "tenant": name}, groups=OURS)
            else:
                assert isinstance(asked.body, dict)
                answer = sent(ask, operation, asked, body={**asked.body, "tenant": name}, groups=OURS)
            assert answer.status in {403, 404, 405, 422}, (operation, name, answer.status)


def test_what_looks_like_a_group_is_not_the_group(ask: Ask, world: World) -> None:
    asked = RIGHTS["GET /api/admin/dlq"].ask(world.things())
    for name in ALMOST:
        if name != "*":
            answer = sent(ask, "GET /api/admin/dlq", asked, groups=["viewer", f"tenant:{name}"])
            assert answer.status == 403, name
    for role in ("Viewer", "VIEWER", "viewer ", "v\u0456ewer", "\uff56iewer", "viewer\x00", "viewers", "view", "none"):
        assert sent(ask, "GET /api/admin/dlq", asked, groups=[role, "tenant:acme"]).status == 403, role


# Echoes

MARK = "h0rse-battery-staple"


def test_what_is_refused_is_quoted_neither_to_the_caller_nor_in_a_log(
    ask: Ask, things: Things, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for operation in WITH_BODY:
        asked = RIGHTS[operation].ask(things)
        assert isinstance(asked.body, dict)
        bodies: tuple[object, ...] = (
            {**asked.body, MARK: MARK},
            {**asked.body, "payload": MARK},
            {**asked.body, "payload": [MARK]},
            {**asked.body, "notes": MARK + "\n", "reason": [MARK]},
            {name: [MARK] for name in [*asked.body, MARK]},
            json.dumps({MARK: MARK})[:-1],
        )
        for body in bodies:
            answer = sent(ask, operation, asked, body=body)
            assert 400 <= answer.status < 500, (operation, body, answer.status)
            assert MARK not in answer.text, (operation, answer.text)
            assert MARK not in str(answer.headers), operation

    said = capsys.readouterr()
    assert MARK not in said.out + said.err + caplog.text
