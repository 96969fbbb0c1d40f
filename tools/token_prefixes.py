"""Write the token prefixes for redaction, derived from the rules of Betterleaks.

`python -m tools.token_prefixes betterleaks.toml`. The file is in https://github.com/betterleaks/betterleaks (MIT).
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

# The standard library's regex parser is private.
parser: Any = import_module("re._parser")
sre: Any = import_module("re._constants")

PREFIXES = Path(__file__).parent.parent / "layers/shared/python/counterfoil/dead_letters/token_prefixes.json"
ORIGIN = "Prefixes in the rules of Betterleaks (https://github.com/betterleaks/betterleaks), {version}"
LICENSE = "MIT, see token_prefixes.LICENSE"
_MIN_PREFIX_CHARS = 3
_DISTINCT_CHARS = 4
"""Minimum length of a prefix that does not occur by chance. Such a prefix is redacted even in a truncated token."""
_MAX_REST_CHARS = 20
_NEEDS_CONTEXT = re.compile(r"\[\\s'\"\]|\(\?:\.\||\[\\s\\S\]|\\s|://")
"""Matches rules that require the words around a token."""
_SEPARATED = re.compile(r"[A-Za-z0-9]{2}[A-Za-z0-9]*[_.~-][A-Za-z0-9_.~-]*|[A-Za-z0-9][0-9]-")
_JOINED = re.compile(r"[A-Za-z0-9]{4,}")
_JOINED_REST_CHARS = 32
"""Minimum number of characters after a prefix without a separator."""
_MAX_PREFIXES = 64
"""Maximum number of prefixes from one rule."""
_MAX_SET_SIZE = 4
"""Maximum size of a character set that is expanded into prefixes."""


def prefixes(rules: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return the prefixes of tokens that require no context.

    Each value is the minimum number of characters after the prefix.
    """
    min_rests: dict[str, int] = {}
    for rule in rules:
        pattern = rule.get("regex", "")
        if rule.get("confidence") != "high" or _NEEDS_CONTEXT.search(pattern.split(r"(?:\\?['", 1)[0]):
            continue
        for prefix, rest in _possible_prefixes(parser.parse(_python(pattern))):
            if len(prefix) >= _MIN_PREFIX_CHARS and _SEPARATED.fullmatch(prefix):
                min_rest = min(rest, _MAX_REST_CHARS) if len(prefix) >= _DISTINCT_CHARS else rest
            elif rest >= _JOINED_REST_CHARS and _JOINED.fullmatch(prefix):
                min_rest = _JOINED_REST_CHARS
            else:
                continue
            min_rests[prefix] = min(min_rests.get(prefix, min_rest), min_rest)
    return dict(sorted(min_rests.items()))


def _python(pattern: str) -> str:
    """Convert a Go pattern to Python. Flags do not matter for a prefix."""
    return re.sub(r"\(\?-?[is]+\)", "", pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")).replace(
        "(?-i:", "(?:"
    )


def _possible_prefixes(items: Any) -> list[tuple[str, int]]:
    """Return the possible prefixes of a parsed pattern.

    Each comes with the minimum number of characters after it.
    """
    texts = [""]
    for index, (operator, argument) in enumerate(items):
        if operator is sre.AT:
            continue
        if operator is sre.LITERAL:
            texts = [text + chr(argument) for text in texts]
            continue
        if operator is sre.IN and len(argument) <= _MAX_SET_SIZE and all(kind is sre.LITERAL for kind, _ in argument):
            texts = [text + chr(item) for text in texts for _, item in argument]
            continue
        rest = items[index + 1 :].getwidth()[0]
        if operator not in {sre.SUBPATTERN, sre.BRANCH} or len(texts) > _MAX_PREFIXES:
            return [(text, items[index:].getwidth()[0]) for text in texts]
        branches = [argument[3]] if operator is sre.SUBPATTERN else argument[1]
        inner = [item for branch in branches for item in _possible_prefixes(branch)]
        if any(width for _, width in inner) or len(inner) * len(texts) > _MAX_PREFIXES:
            return [(text + suffix, width + rest) for text in texts for suffix, width in inner]
        texts = [text + suffix for text in texts for suffix, _ in inner]
    return [(text, 0) for text in texts]


def main(path: str) -> None:
    """Write `PREFIXES` from a rule file."""
    config = tomllib.loads(Path(path).read_text())
    header = {"origin": ORIGIN.format(version=config["minVersion"]), "license": LICENSE}
    PREFIXES.write_text(json.dumps({**header, "prefixes": prefixes(config["rules"])}, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
