"""Conditional requests: forms of If-None-Match, and routes that accept If-Match."""

from typing import Any
from uuid import UUID

import pytest

from functions.admin_api.handler import document
from functions.admin_api.http import etag, is_current
from tests.dead_letters.dead_letter_factory import MakeDeadLetter
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.dead_letter_requests import PATH, VIEWER, get
from tests.functions.admin_api.permissions import operations_by_route


@pytest.mark.parametrize("condition", ['"3"', 'W/"3"', '"1","3"', '"1" , W/"3"', "*", " * ", '"a,b", "3"'])
def test_if_none_match_with_current_version_matches(condition: str) -> None:
    assert is_current(condition, 3)


@pytest.mark.parametrize("condition", [None, "", "3", '"33"', '"13"', "'3'", '"', '"3', "**"])
def test_other_if_none_match_values_do_not_match(condition: str | None) -> None:
    assert not is_current(condition, 3)


def test_version_tag_is_strong() -> None:
    assert etag(3) == '"3"'


# Responses without a version


@pytest.mark.parametrize("path", ["", "/stats", "/groups", "/audit"])
def test_unchanged_list_returns_304(path: str, call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    add_dead_letter()
    first = get(call_api, path)
    tag = first.headers["ETag"]

    def get_conditionally(if_none_match: str, **options: Any) -> ApiResponse:
        return call_api(
            "", method="GET", path=f"{PATH}{path}", groups=VIEWER, headers={"If-None-Match": if_none_match}, **options
        )

    assert tag.startswith('W/"')
    for if_none_match in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        unchanged = get_conditionally(if_none_match)
        assert (unchanged.status, unchanged.text, unchanged.headers["ETag"]) == (304, "", tag)
        assert "Content-Type" not in unchanged.headers
    for if_none_match in ('"other"', "", tag[:-2] + '"'):
        assert (get_conditionally(if_none_match).status, get_conditionally(if_none_match).text) == (200, first.text)


def test_etag_changes_with_the_list(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    tags = []
    for _ in range(2):
        add_dead_letter()
        tags.append([get(call_api, path).headers["ETag"] for path in ("", "/stats", "/groups")])

    assert not set(tags[0]) & set(tags[1])


def test_forbidden_list_never_returns_304(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    add_dead_letter()
    for groups, status in (("[viewer tenant:other]", 403), ("", 403)):
        response = call_api(
            "", method="GET", path=PATH, groups=groups, query={"tenant": "acme"}, headers={"If-None-Match": "*"}
        )
        assert (response.status, "ETag" in response.headers) == (status, False)


def test_changes_ignore_if_none_match(call_api: CallApi, acme: UUID) -> None:
    response = call_api({"task_type": "echo", "payload": {}}, path="/api/tasks", headers={"If-None-Match": "*"})

    assert (response.status, "ETag" in response.headers) == (202, False)


CREATES = {
    "POST /api/uploads",
    "POST /api/admin/offers",
    "POST /api/admin/operations",
    "POST /api/tasks",
    *(f"POST /api/admin/dlq/bulk-{action}" for action in ("retry", "resolve", "ignore")),
    "PUT /api/users/{user_id}/blocks/{blocked_id}",
    "POST /api/admin/people",
    "POST /api/admin/tenants",
    "POST /api/admin/tenants/{tenant}/destinations",
    "POST /api/admin/tenants/{tenant}/destinations/{name}/rotate",
    "POST /api/admin/tenants/{tenant}/tolerances/recompare",
}
ADDS_AND_REMOVES = {f"PATCH /api/admin/tenants/{{tenant}}/{kind}" for kind in ("addresses", "admins")}
SETS_WHOLE_VALUES = {
    "PATCH /api/admin/people/{person_id}",
    "PATCH /api/admin/tenants/{tenant}",
    "PUT /api/admin/tenants/{tenant}/tolerances",
}
"""Changes that replace a value regardless of the previous value. The audit trail records both values."""
ENDS_UNCONDITIONALLY = {
    "DELETE /api/admin/people/{person_id}",
    "POST /api/tasks/{job_id}/cancel",
    "DELETE /api/chat/sessions/{session_id}",
    "DELETE /api/users/{user_id}/profile",
    "DELETE /api/users/{user_id}/blocks/{blocked_id}",
    *(f"POST /api/admin/mail/{{mail_id}}/{action}" for action in ("release", "reject")),
    "DELETE /api/admin/tenants/{tenant}/destinations/{name}",
    "DELETE /api/admin/tenants/{tenant}/tolerances",
}
VERSION_IS_OPTIONAL = {f"POST /api/admin/dlq/{{job_id}}/{action}" for action in ("retry", "resolve", "ignore")}
VERSION_IN_BODY = {
    "PUT /api/admin/mail/policy",
    *(f"POST /api/admin/reviews/{action}" for action in ("merge", "split")),
    *(f"POST /api/admin/variances/{action}" for action in ("accept", "dispute")),
    *(f"POST /api/admin/reviews/{{document_id}}/{action}" for action in ("confirm", "reject")),
    "POST /api/admin/tenants/{tenant}/tolerances/suggestions/{suggestion_id}/accept",  # the id is a hash
}


def test_changes_accept_if_match_unless_exempt() -> None:
    accepting = set()
    for operation, spec in operations_by_route(document()).items():
        if "If-Match" in [parameter["name"] for parameter in spec.get("parameters", ())]:
            accepting.add(operation)
            assert "412" in spec["responses"], operation
            assert ("428" in spec["responses"]) == (operation not in VERSION_IS_OPTIONAL), operation
    changing = {operation for operation in operations_by_route(document()) if not operation.startswith("GET ")}

    exempt = CREATES | ADDS_AND_REMOVES | SETS_WHOLE_VALUES | ENDS_UNCONDITIONALLY
    assert changing - accepting == exempt | VERSION_IN_BODY


def test_every_get_describes_conditional_requests() -> None:
    for operation, spec in operations_by_route(document()).items():
        headers = [parameter["name"].lower() for parameter in spec.get("parameters", ()) if parameter["in"] == "header"]
        assert len(headers) == len(set(headers)), operation
        if operation.startswith("GET ") and "application/json" in spec["responses"]["200"].get("content", {}):
            assert "ETag" in spec["responses"]["200"]["headers"], operation
            assert "304" in spec["responses"], operation
            assert "If-None-Match" in [parameter["name"] for parameter in spec["parameters"]], operation
