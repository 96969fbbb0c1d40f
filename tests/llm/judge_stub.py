"""Serve a stub of the LLM judge: `python -m tests.llm.judge_stub --port 8099`.

In each group, the stub chooses the candidate that shares the most values with the document, if its lead is at least
`MARGIN`. The same request always gets the same answer.
"""

import argparse
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

from tests.llm.server import Request, Server

MARGIN = 2
"""Minimum lead of the best candidate over the second best, in shared values."""


def judge(request: Request) -> str:
    """Return the judgment for a matching request.

    The answer to any other request has no matches.
    """
    decision = re.search(r"<case>\n(.*)\n</case>", request.user, re.DOTALL)
    matches = [] if decision is None else [chosen for group in json.loads(decision[1])["groups"] for chosen in _choose(
        set(_statements(json.loads(decision[1])["document"]["says"])), group["candidates"]
    )]  # fmt: skip
    return json.dumps({"matches": matches})


def _choose(stated: set[str], candidates: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    common = {candidate["candidate"]: len(stated & set(_statements(candidate["says"]))) for candidate in candidates}
    best, *rest = sorted(common, key=lambda label: -common[label])
    if common[best] - max((common[other] for other in rest), default=0) >= MARGIN:
        reasoning = f"{common[best]} statements of the document are in {best} as well."
        yield {"candidate": best, "confidence": "high", "reasoning": reasoning}


def _statements(value: Any) -> Iterator[str]:
    """Yield every scalar in nested data as text."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _statements(part)
    elif value is not None:
        yield str(value)


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--failing", type=float, default=0.0, help="share of calls that fail, from 0 to 1")
    options = parser.parse_args()
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before threads start, because they inherit the mask
    with Server(respond=judge, failure_rate=options.failing, port=options.port) as server:
        print(server.url, flush=True)  # noqa: T201  # the parent process reads the URL
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
