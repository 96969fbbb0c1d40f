"""Language model calls, shown for documents, reviews and clusters."""

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

from cli.commands import clusters
from cli.commands.review import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from counterfoil.documents import removal
from tests.cli.test_review import run
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.matching.test_judge import CHOICE, TWICE, MakeJudge, answer, duplicate_of, make_judge, model_server
from tests.llm.server import Failure, Server

__all__ = ["make_judge", "model_server"]


@pytest.fixture
def harness(api: None, database: Database, admin: Connection, make_judge: MakeJudge) -> TenantHarness:
    harness = TenantHarness(database, admin, TWICE, make_judge)
    harness.match_all([0, 1])
    return harness


def questions(harness: TenantHarness) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run("llm-log", harness.ids[2], "--json"))["questions"]
    return listed


def test_llm_call_is_shown_with_candidates_and_answer(harness: TenantHarness, model_server: Server) -> None:
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    shown = run("llm-log", harness.ids[2])
    assert "2026-06-01 00:00  the-model  prompt matching-4, temperature 0, 120 tokens in, 30 out" in shown
    assert [line.split()[0] for line in shown.splitlines() if "purchase order 4711" in line] == ["A1", "A2"]
    assert f"The model chose A1, {str(harness.ids[0])[-8:]} (high): Both lines are the same." in shown
    assert "<case>" not in shown


def test_json_contains_the_request_as_sent(harness: TenantHarness, model_server: Server) -> None:
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    (request,) = model_server.requests
    (question,) = questions(harness)
    assert (question["system"], question["user"]) == (request.system, request.user)
    assert (question["prompt"], question["model"], question["temperature"]) == ("matching-4", "the-model", 0)
    assert question["answer"] == {"matches": [CHOICE]}
    candidates = [(label, candidate["id"]) for label, candidate in question["candidates"].items()]
    assert candidates == [("A1", str(harness.ids[0])), ("A2", str(harness.ids[1]))]
    assert "".join(request.user.split()) in "".join(run("llm-log", harness.ids[2], "--full-prompt").split())


def test_control_characters_in_prompts_are_removed(
    harness: TenantHarness, model_server: Server, admin: Connection
) -> None:
    admin.execute(
        "UPDATE document SET structured_data = structured_data || %s WHERE id = %s",
        [Jsonb({"notes": "\x9b31m\u202ered"}), harness.ids[2]],
    )
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    assert not {"\x9b", "\u202e"} & set(run("llm-log", harness.ids[2], "--full-prompt"))


def test_review_shows_the_models_answer(harness: TenantHarness, model_server: Server) -> None:
    model_server.add_steps(answer(CHOICE | {"confidence": "low"}))
    harness.match(2)
    shown = run("show", harness.ids[2])
    assert "Language model calls" in shown
    assert f"The model chose A1, {str(harness.ids[0])[-8:]} (low): Both lines are the same." in shown
    assert f"counterfoil review llm-log {str(harness.ids[2])[-8:]}" in shown


def test_answer_without_a_candidate_is_shown(harness: TenantHarness, model_server: Server) -> None:
    model_server.add_steps(answer())
    harness.match(2)
    assert "The model chose no candidate." in run("llm-log", harness.ids[2])


def test_rejected_llm_call_is_shown(harness: TenantHarness, model_server: Server) -> None:
    harness.judge, judge = None, harness.judge
    harness.match(2)
    harness.judge = judge
    model_server.add_steps(Failure(400))
    harness.match(harness.file(duplicate_of(2)))
    shown = run("llm-log", harness.ids[2])
    assert "The call was rejected: 127.0.0.1 answered with HTTP 400" in shown
    assert "tokens" not in shown


def test_prompt_with_a_deleted_candidate_is_hidden(harness: TenantHarness, model_server: Server) -> None:
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    with harness.database.tenant(harness.tenant_id) as connection:
        removal.delete_document(connection, harness.tenant_id, harness.ids[0], NOW, by="clerk")
    shown = run("llm-log", harness.ids[2], "--full-prompt")
    assert "The model chose A1, a deleted document (high)" in shown
    assert "The prompt is no longer stored." in shown
    assert "<case>" not in shown
    assert questions(harness)[0]["user"] is None


def test_match_shows_its_llm_log_command(harness: TenantHarness, model_server: Server) -> None:
    model_server.add_steps(answer(CHOICE))
    harness.match(2)
    result = CliRunner().invoke(clusters.app, ["show", str(harness.ids[2])], env={"COLUMNS": "160"})
    assert f"LLM judgment: counterfoil review llm-log {str(harness.ids[2])[-8:]}" in result.output
    with pytest.raises(UsageError, match="There is no such review"):
        run("show", harness.ids[2])


def test_document_without_llm_calls_prints_a_sentence(harness: TenantHarness) -> None:
    assert "No language model calls were made about this document." in run("llm-log", harness.ids[0])
    assert "llm-log" in CliRunner().invoke(app, ["--help"]).output


def test_review_shows_an_exhausted_budget(harness: TenantHarness, admin: Connection) -> None:
    harness.judge = None
    harness.match(2)
    admin.execute(
        """UPDATE document_review
            SET ambiguous_matches = jsonb_set(ambiguous_matches, '{0,llm_skip_reason}', '"The budget is used up."')"""
    )
    assert "Two purchase orders with the number 4711 match equally well. The budget is used up." in run(
        "show", harness.ids[2]
    )
