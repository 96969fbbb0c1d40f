"""`/api/admin/dlq/groups` and `/stats`: dead letter groups and counts."""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.functions.admin_api.conftest import CallApi
from tests.functions.admin_api.dead_letter_requests import get


def test_groups_have_counts_trend_and_times(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, set_status: Callable[[UUID, str], None]
) -> None:
    this_hour = (datetime.now(UTC) - NOON) / timedelta(minutes=1)
    timeouts = [add_dead_letter(f"Page {number} timed out", minute=this_hour - 60 * number) for number in (2, 1, 0)]
    full = add_dead_letter("The disk is full", minute=this_hour - 600)
    set_status(timeouts[0], "resolved")
    set_status(full, "ignored")

    response = get(call_api, "/groups")

    assert (response.status, response.body["next_cursor"]) == (200, None)
    timed_out, disk_full = response.body["groups"]
    assert (
        timed_out
        | {
            "worker": "ingestion",
            "error_type": "TimeoutError",
            "message": "Page 0 timed out",
            "count": 3,
            "pending": 2,
            "resolved": 1,
            "ignored": 0,
            "redacted_paths": [],
        }
        == timed_out
    )
    assert (timed_out["trend"], sum(disk_full["trend"])) == ([0] * 21 + [1, 1, 1], 1)
    first, last = (datetime.fromisoformat(timed_out[name]) for name in ("first_seen", "last_seen"))
    assert last - first == timedelta(hours=2)
    assert [item["message"] for item in get(call_api, "/groups", status="pending").body["groups"]] == [
        "Page 0 timed out"
    ]
    assert [item["message"] for item in get(call_api, "/groups", status="ignored,retried").body["groups"]] == [
        "The disk is full"
    ]


def test_groups_are_paged(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    for number in range(7):
        add_dead_letter(f"Error {'abcdefg'[number]}", minute=number // 2)
    titles: list[str] = []
    query = {"limit": "3"}
    for _ in range(3):
        page = get(call_api, "/groups", **query).body
        titles += [group["message"] for group in page["groups"]]
        query["cursor"] = page["next_cursor"]

    assert (sorted(titles), page["next_cursor"]) == ([f"Error {suffix}" for suffix in "abcdefg"], None)
    null_character = b64encode(f"{NOON.isoformat()}|\0".encode()).decode()
    for cursor in ("nonsense", null_character, get(call_api, limit="1").body["next_cursor"]):
        assert get(call_api, "/groups", cursor=cursor).status in {200, 422}


def test_stats_count_by_task_type_and_status(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, set_status: Callable[[UUID, str], None]
) -> None:
    set_status(add_dead_letter(task_type="echo"), "resolved")
    for _ in range(2):
        add_dead_letter(task_type="echo")
    add_dead_letter()

    response = get(call_api, "/stats")

    assert response.body == {
        "tenant": "acme",
        "count": 4,
        "pending": 3,
        "retried": 0,
        "resolved": 1,
        "ignored": 0,
        "task_types": [
            {"task_type": "echo", "count": 3, "pending": 2, "retried": 0, "resolved": 1, "ignored": 0},
            {"task_type": "ingestion", "count": 1, "pending": 1, "retried": 0, "resolved": 0, "ignored": 0},
        ],
    }


@pytest.mark.usefixtures("acme")
def test_tenant_without_dead_letters_has_empty_lists(call_api: CallApi) -> None:
    assert get(call_api).body == {"dead_letters": [], "next_cursor": None}
    assert get(call_api, "/groups").body == {"groups": [], "next_cursor": None}
    assert (get(call_api, "/stats").body["count"], get(call_api, "/stats").body["task_types"]) == (0, [])
