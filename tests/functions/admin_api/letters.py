"""Helpers for tests of `/api/admin/dlq`."""

from collections.abc import Sequence
from uuid import UUID

from tests.functions.admin_api.conftest import Answer, Ask

PATH = "/api/admin/dlq"
VIEWER, ADMIN = "[viewer tenant:acme]", "[admin tenant:acme]"


def get(ask: Ask, path: str = "", *, groups: str = VIEWER, **query: str) -> Answer:
    return ask("", method="GET", path=f"{PATH}{path}", groups=groups, query=query)


def listed_ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [letter["job_id"] for letter in answer.body["dead_letters"]]


def ids(job_ids: Sequence[UUID]) -> list[str]:
    return [str(job_id) for job_id in job_ids]
