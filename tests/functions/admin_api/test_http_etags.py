"""If-None-Match, as clients and the caches between may write it, and what is answered to it; who needs If-Match."""

from typing import Any
from uuid import UUID

import pytest

from functions.admin_api.handler import document
from functions.admin_api.http import etag, is_current
from tests.dead_letters.letters import Die
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.letters import PATH, VIEWER, get
from tests.functions.admin_api.rights import described


@pytest.mark.parametrize("condition", ['"3"', 'W/"3"', '"1","3"', '"1" , W/"3"', "*", " * ", '"a,b", "3"'])
def test_a_condition_that_names_the_version_is_met(condition: str) -> None:
    assert is_current(condition, 3)


@pytest.mark.parametrize("condition", [None, "", "3", '"33"', '"13"', "'3'", '"', '"3', "**"])
def test_any_other_is_not(condition: str | None) -> None:
    assert not is_current(condition, 3)


def test_a_tag_is_strong() -> None:
    assert etag(3) == '"3"'


# Of answers that have no version


@pytest.mark.parametrize("path", ["", "/stats", "/groups", "/audit"])
def test_a_list_that_is_as_it_was_is_not_sent_again(path: str, ask: Ask, die: Die) -> None:
    die()
    first = get(ask, path)
    tag = first.headers["ETag"]

    def again(known: str, **how: Any) -> Answer:
        return ask("", method="GET", path=f"{PATH}{path}", groups=VIEWER, headers={"If-None-Match": known}, **how)

    assert tag.startswith('W/"')
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        same = again(known)
        assert (same.status, same.text, same.headers["ETag"]) == (304, "", tag)
        assert "Content-Type" not in same.headers
    for known in ('"other"', "", tag[:-2] + '"'):
        assert (again(known).status, again(known).text) == (200, first.text)


def test_a_list_that_has_changed_is_sent(ask: Ask, die: Die) -> None:
    tags = []
    for _ in range(2):
        die()
        tags.append([get(ask, path).headers["ETag"] for path in ("", "/stats", "/groups")])

    assert not set(tags[0]) & set(tags[1])


def test_nobody_is_told_that_what_he_may_not_see_is_as_it_was(ask: Ask, die: Die) -> None:
    die()
    for groups, status in (("[viewer tenant:other]", 403), ("", 403)):
        answer = ask(
            "", method="GET", path=PATH, groups=groups, query={"tenant": "acme"}, headers={"If-None-Match": "*"}
        )
        assert (answer.status, "ETag" in answer.headers) == (status, False)


def test_a_change_is_made_whatever_is_known_of_its_answer(ask: Ask, acme: UUID) -> None:
    answer = ask({"task_type": "echo", "payload": {}}, path="/api/tasks", headers={"If-None-Match": "*"})

    assert (answer.status, "ETag" in answer.headers) == (202, False)


MAKES_SOMETHING = {
    "POST /api/uploads",
    "POST /api/admin/offers",
    "POST /api/admin/operations",
    "POST /api/tasks",
    *(f"POST /api/admin/dlq/bulk-{word}" for word in ("retry", "resolve", "ignore")),
    "PUT /api/users/{user_id}/blocks/{blocked_id}",
    "POST /api/admin/people",
    "POST /api/admin/tenants",
    "POST /api/admin/tenants/{tenant}/destinations",
    "POST /api/admin/tenants/{tenant}/destinations/{name}/rotate",
    "POST /api/admin/tenants/{tenant}/tolerances/recompare",
}
ADDS_AND_REMOVES = {f"PATCH /api/admin/tenants/{{tenant}}/{what}" for what in ("addresses", "admins")}
SETS_WHOLE_VALUES = {
    "PATCH /api/admin/people/{person_id}",
    "PATCH /api/admin/tenants/{tenant}",
    "PUT /api/admin/tenants/{tenant}/tolerances",
}
"""Requests name every value that they set, and no value depends on the previous one. The audit trail has both."""
ENDS_WHATEVER_THERE_IS = {
    "DELETE /api/admin/people/{person_id}",
    "POST /api/tasks/{job_id}/cancel",
    "DELETE /api/chat/sessions/{session_id}",
    "DELETE /api/users/{user_id}/profile",
    "DELETE /api/users/{user_id}/blocks/{blocked_id}",
    *(f"POST /api/admin/mail/{{mail_id}}/{word}" for word in ("release", "reject")),
    "DELETE /api/admin/tenants/{tenant}/destinations/{name}",
    "DELETE /api/admin/tenants/{tenant}/tolerances",
}
DEPENDS_ON_A_VERSION_IF_SENT = {f"POST /api/admin/dlq/{{job_id}}/{word}" for word in ("retry", "resolve", "ignore")}
NAMES_WHAT_WAS_SEEN_IN_ITS_BODY = {
    "PUT /api/admin/mail/policy",
    *(f"POST /api/admin/reviews/{word}" for word in ("merge", "split", "accept", "dispute")),
    *(f"POST /api/admin/reviews/{{document_id}}/{word}" for word in ("confirm", "reject")),
    "POST /api/admin/tenants/{tenant}/tolerances/suggestions/{suggestion_id}/accept",  # its id is a hash of it
}


def test_whatever_else_changes_something_that_there_is_takes_if_match() -> None:
    takes = set()
    for operation, told in described(document()).items():
        if "If-Match" in [parameter["name"] for parameter in told.get("parameters", ())]:
            takes.add(operation)
            assert "412" in told["responses"], operation
            assert ("428" in told["responses"]) == (operation not in DEPENDS_ON_A_VERSION_IF_SENT), operation
    changing = {operation for operation in described(document()) if not operation.startswith("GET ")}

    exempt = MAKES_SOMETHING | ADDS_AND_REMOVES | SETS_WHOLE_VALUES | ENDS_WHATEVER_THERE_IS
    assert changing - takes == exempt | NAMES_WHAT_WAS_SEEN_IN_ITS_BODY


def test_every_get_says_that_it_may_be_asked_again() -> None:
    for operation, told in described(document()).items():
        headers = [one["name"].lower() for one in told.get("parameters", ()) if one["in"] == "header"]
        assert len(headers) == len(set(headers)), operation
        if operation.startswith("GET ") and "application/json" in told["responses"]["200"].get("content", {}):
            assert "ETag" in told["responses"]["200"]["headers"], operation
            assert "304" in told["responses"], operation
            assert "If-None-Match" in [parameter["name"] for parameter in told["parameters"]], operation
