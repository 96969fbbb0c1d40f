"""Write the token prefixes that redaction knows from the rules of Betterleaks.

`python -m tools.token_prefixes betterleaks.toml`; the file is in https://github.com/betterleaks/betterleaks (MIT).
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

# The regex parser of the standard library has no public form.
parser: Any = import_module("re._parser")
sre: Any = import_module("re._constants")

PREFIXES = Path(__file__).parent.parent / "layers/shared/python/counterfoil/dead_letters/token_prefixes.json"
ORIGIN = "Prefixes in the rules of Betterleaks (https://github.com/betterleaks/betterleaks), {version}"
LICENSE = "MIT, see token_prefixes.LICENSE"
_SHORTEST_PREFIX = 3
_DISTINCT = 4
"""Length from which a prefix is unlikely to occur by chance. A token may be cut off in a message behind such a one."""
_ENOUGH = 20
_BY_CONTEXT = re.compile(r"\[\\s'\"\]|\(\?:\.\||\[\\s\\S\]|\\s|://")
"""Rules that need the words around a token."""
_SEPARATED = re.compile(r"[A-Za-z0-9]{2}[A-Za-z0-9]*[_.~-][A-Za-z0-9_.~-]*|[A-Za-z0-9][0-9]-")
_JOINED = re.compile(r"[A-Za-z0-9]{4,}")
_LONG = 32
"""Characters that must follow a prefix without a separator."""
_MOST = 64
"""Prefixes of one rule."""
_FEW = 4
"""Characters of a set that are written out."""


def prefixes(rules: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Prefixes of the rules for tokens without context, and how many characters must follow each."""
    found: dict[str, int] = {}
    for rule in rules:
        pattern = rule.get("regex", "")
        if rule.get("confidence") != "high" or _BY_CONTEXT.search(pattern.split(r"(?:\\?['", 1)[0]):
            continue
        for prefix, rest in _beginnings(parser.parse(_python(pattern))):
            if len(prefix) >= _SHORTEST_PREFIX and _SEPARATED.fullmatch(prefix):
                bounded = min(rest, _ENOUGH) if len(prefix) >= _DISTINCT else rest
            elif rest >= _LONG and _JOINED.fullmatch(prefix):
                bounded = _LONG
            else:
                continue
            found[prefix] = min(found.get(prefix, bounded), bounded)
    return dict(sorted(found.items()))


def _python(pattern: str) -> str:
    """A pattern of Go as one of Python. Flags do not matter for a prefix."""
    return re.sub(r"\(\?-?[is]+\)", "", pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")).replace(
        "(?-i:", "(?:"
    )


def _beginnings(items: Any) -> list[tuple[str, int]]:
    """Texts that a parsed pattern may begin with, each with the least number of characters behind it."""
    begun = [""]
    for at, (operator, argument) in enumerate(items):
        if operator is sre.AT:
            continue
        if operator is sre.LITERAL:
            begun = [text + chr(argument) for text in begun]
            continue
        if operator is sre.IN and len(argument) <= _FEW and all(kind is sre.LITERAL for kind, _ in argument):
            begun = [text + chr(one) for text in begun for _, one in argument]
            continue
        rest = items[at + 1 :].getwidth()[0]
        if operator not in {sre.SUBPATTERN, sre.BRANCH} or len(begun) > _MOST:
            return [(text, items[at:].getwidth()[0]) for text in begun]
        branches = [argument[3]] if operator is sre.SUBPATTERN else argument[1]
        inner = [one for branch in branches for one in _beginnings(branch)]
        if any(width for _, width in inner) or len(inner) * len(begun) > _MOST:
            return [(text + more, width + rest) for text in begun for more, width in inner]
        begun = [text + more for text in begun for more, _ in inner]
    return [(text, 0) for text in begun]


def main(path: str) -> None:
    """Write `PREFIXES` from a rule file."""
    config = tomllib.loads(Path(path).read_text())
    found = {"origin": ORIGIN.format(version=config["minVersion"]), "license": LICENSE}
    PREFIXES.write_text(json.dumps({**found, "prefixes": prefixes(config["rules"])}, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
