"""A stand-in for a language model that judges doubtful pairs sensibly: `python -m tests.llm.judging --port 8099`.

It chooses the candidate that says most of what the document says as well, where one does so clearly, and none else. It
answers the same question alike every time, however often it is asked.
"""

import argparse
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

from tests.llm.server import Request, Server

MARGIN = 2
"""Statements by which the best candidate must be ahead."""


def judge(request: Request) -> str:
    """The answer to a question in the form of `counterfoil.documents.matching.judge`; of any other: an empty one."""
    found = re.search(r"<case>\n(.*)\n</case>", request.user, re.DOTALL)
    matches = [] if found is None else [chosen for group in json.loads(found[1])["groups"] for chosen in _choose(
        set(_statements(json.loads(found[1])["document"]["says"])), group["candidates"]
    )]  # fmt: skip
    return json.dumps({"matches": matches})


def _choose(said: set[str], candidates: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    common = {candidate["candidate"]: len(said & set(_statements(candidate["says"]))) for candidate in candidates}
    best, *others = sorted(common, key=lambda label: -common[label])
    if common[best] - max((common[other] for other in others), default=0) >= MARGIN:
        reasoning = f"{common[best]} statements of the document are in {best} as well."
        yield {"candidate": best, "confidence": "high", "reasoning": reasoning}


def _statements(value: Any) -> Iterator[str]:
    """Every single value somewhere in a document."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _statements(part)
    elif value is not None:
        yield str(value)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--failing", type=float, default=0.0, help="share of calls that fail, 0 to 1")
    given = parser.parse_args()
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads, which inherit it
    with Server(otherwise=judge, failing=given.failing, port=given.port) as server:
        print(server.url, flush=True)  # noqa: T201  # whoever started it reads where it is
        signal.sigwait(ends)


if __name__ == "__main__":
    main()
