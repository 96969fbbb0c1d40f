"""The stub of the LLM judge answers as a separate process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterfoil import http

CASE = {
    "document": {"type": "invoice", "says": {"project": "Alpha", "contact": "Jo", "po": "1"}},
    "groups": [
        {
            "group": "A",
            "candidates": [
                {"candidate": "A1", "says": {"project": "Beta", "contact": "Jo"}},
                {"candidate": "A2", "says": {"project": "Alpha", "contact": "Jo", "po": "1"}},
            ],
        },
        {"group": "B", "candidates": [{"candidate": "B1", "says": {}}, {"candidate": "B2", "says": {}}]},
    ],
}


@pytest.fixture
def url() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.llm.judge_stub"], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        assert process.wait(10) == 0


def test_clearly_best_candidate_is_chosen(url: str):
    question = f"<case>\n{json.dumps(CASE)}\n</case>"
    body = {"model": "m", "messages": [{"role": "system", "content": ""}, {"role": "user", "content": question}]}
    response = http.send("POST", f"{url}/v1/chat/completions", json=body, connect=5, read=5, total=10).json()
    judgment = json.loads(response["choices"][0]["message"]["content"])
    assert [(match["candidate"], match["confidence"]) for match in judgment["matches"]] == [("A2", "high")]
