"""Hide secrets in JSON values from roles that may read dead letters but not secrets. Pure.

Hidden are:

- values under the name of a secret (password, token, API key, cookie, ...) and everything below them
- values that an adjacent name marks: `{"name": "X-Api-Key", "value": ...}`, `["Authorization", ...]`, `--password X`
- private members of JSON Web Keys, and the data of Kubernetes secrets
- secrets in texts and in names, see `text_redaction`
- account numbers (IBAN, ISO 13616) and card numbers with valid check digits, except for their last four characters
- bodies of e-mails, messages and requests

The shape is unchanged: the same objects, lists and names. A placeholder replaces each secret.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from counterfoil.dead_letters.text_redaction import (
    CONVERSATION,
    LAST,
    REDACTED,
    is_fact,
    is_uuid,
    labels_secret,
    looks_random,
    names_secret,
    without_secrets,
)

_Rule = Callable[[Any], Any]
"""Returns the visible form of a leaf."""


class Redacted(NamedTuple):
    """A value without its secrets."""

    value: Any
    """JSON in its original shape."""
    pointers: list[str]
    """JSON pointers (RFC 6901) to hidden values. Names that are secrets are also hidden in them."""


def without_traceback(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dead letter without tracebacks, which only admins may read."""
    shown = dict(fields)
    if "metadata" in fields:
        shown["metadata"] = _untraced(fields["metadata"])
    if "previous_failures" in fields:
        shown["previous_failures"] = [_untraced(earlier) for earlier in fields["previous_failures"]]
    return shown


def _untraced(death: Mapping[str, Any]) -> dict[str, Any]:
    error = death.get("last_error") or {}
    if "traceback" not in error.get("context", {}):
        return dict(death)
    context = {name: value for name, value in error["context"].items() if name != "traceback"}
    return {**death, "last_error": {**error, "context": context}}


def redact(value: Any) -> Redacted:
    """Hide the secrets in a JSON value. Idempotent."""
    pointers: list[str] = []
    return Redacted(_shown(value, "", _open, pointers), pointers)


def _shown(value: Any, pointer: str, rule: _Rule, pointers: list[str]) -> Any:
    if isinstance(value, Mapping):
        marked = _marked_members(value) if rule is _open else set()
        shown: dict[str, Any] = {}
        for name, one in value.items():
            visible = _visible_name(name, shown)
            own_rule = _secret if name in marked else _rule_of(name, value, rule)
            shown[visible] = _shown(one, f"{pointer}/{_escaped(visible)}", own_rule, pointers)
            if visible != name:
                pointers.append(f"{pointer}/{_escaped(visible)}")
        return shown
    if isinstance(value, list):
        marked_items = _marked_items(value) if rule is _open else set()
        return [
            _shown(one, f"{pointer}/{number}", _secret if number in marked_items else rule, pointers)
            for number, one in enumerate(value)
        ]
    leaf = rule(value)
    if leaf != value:
        pointers.append(pointer)
    return leaf


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# -- names next to their values ---------------------------------------------------------------------------------

_NAMING = {"name", "key", "header", "headername", "field", "parameter", "param", "variable", "property", "label", "loc"}
_VALUES = {"value", "values", "val", "content", "data", "input", "text", "string"}
_PAIR = 2


_JWK = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
"""Private members of a JSON Web Key (RFC 7518, 6)."""


def _marked_members(value: Mapping[str, Any]) -> set[str]:
    """Return the members that are secrets because of other members of the object.

    They are the private parts of a JSON Web Key, the data of a Kubernetes secret, and values whose name is another
    member, or the last item of its list.
    """
    if isinstance(value.get("kty"), str):
        return _JWK
    if value.get("kind") == "Secret":
        return {"data", "stringData"}
    plain = {name: _plain(name) for name in value}
    if not any(
        labels_secret(one[-1] if isinstance(one, list) and one else one)
        for name, one in value.items()
        if plain[name] in _NAMING
    ):
        return set()
    return {name for name, one in plain.items() if one in _VALUES}


def _marked_items(value: list[Any]) -> set[int]:
    """Return items after the name of a secret: in pairs, after options, or in lists of names and values."""
    return {
        number
        for number in range(1, len(value))
        if labels_secret(value[number - 1])
        and (len(value) == _PAIR or value[number - 1].startswith("-") or (number % 2 and len(value) % 2 == 0))
    }


# -- by names -------------------------------------------------------------------------------------------------------

_MAIL_SUBJECT = "subject"
_MAIL_PEOPLE = {"from", "to", "sender", "recipient", "recipients"}
_MAIL_TEXTS = {"text", "html", "plain", "content", "parts", "message"}
_SHORTEST_SECRET = 16


def _visible_name(name: str, others: Mapping[str, Any]) -> str:
    """Return a name without its secrets, different from the names before it."""
    if len(name) < _SHORTEST_SECRET or name == (visible := without_secrets(name)):
        return name
    number = 1
    while (numbered := visible if number == 1 else f"{visible} {number}") in others:
        number += 1
    return numbered


def _rule_of(name: str, among: Mapping[str, Any], rule: _Rule) -> _Rule:
    """Return the rule for a value under a name. Everything below a secret is a secret."""
    if rule is not _open:
        return rule
    plain, known = _cached(name) if len(name) <= _LONGEST_CACHED else _known(name)
    if known is not None:
        return known
    if plain in _MAIL_TEXTS:
        others = set(map(_plain, among))
        return _secret if _MAIL_SUBJECT in others and others & _MAIL_PEOPLE else _open
    return _open


def _known(name: str) -> tuple[str, _Rule | None]:
    """Return a name in its plain form, and the rule for its value if the name alone determines it."""
    plain = _plain(name)
    rule: _Rule | None = None
    if name == CONVERSATION:
        rule = _unless_uuid
    elif names_secret(name):
        rule = _redact_except_counts if plain.endswith("tokens") else partial(_unless_fact, name)
    elif plain.startswith("body") or plain.endswith("body"):
        rule = _redact_except_counts
    elif plain.endswith("iban"):
        rule = _account
    elif plain == "key":
        rule = _unless_harmless
    return plain, rule


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_LONGEST_CACHED = 64
"""Longer names are rare and would take memory."""
_cached = lru_cache(maxsize=2048)(_known)


def _secret(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


def _redact_except_counts(value: Any) -> Any:
    """Hide everything except numbers, which count tokens or the bytes of a body."""
    return value if isinstance(value, int | float) else _secret(value)


def _unless_fact(name: str, value: Any) -> Any:
    return value if is_fact(name, value) else _secret(value)


def _unless_uuid(value: Any) -> Any:
    return value if isinstance(value, str) and is_uuid(value) else _secret(value)


def _unless_harmless(value: Any) -> Any:
    return REDACTED if isinstance(value, str) and looks_random(value) else _open(value)


_HIDDEN_ACCOUNT = re.compile(rf"{re.escape(REDACTED)}(?: [A-Za-z0-9]{{4}})?")
_SHORTEST_ACCOUNT = 12


def _account(value: Any) -> Any:
    if not isinstance(value, str) or _HIDDEN_ACCOUNT.fullmatch(value):
        return value if isinstance(value, str) else _secret(value)
    letters = re.sub(r"[^A-Za-z0-9]", "", value)
    return f"{REDACTED} {letters[-LAST:]}" if len(letters) >= _SHORTEST_ACCOUNT else _secret(value)


# -- texts ----------------------------------------------------------------------------------------------------------


def _open(value: Any) -> Any:
    """Return a text without secrets, and any other value unchanged."""
    if not isinstance(value, str):
        return value
    if (parsed := _parsed(value)) is not None:
        inside = redact(parsed)
        return json.dumps(inside.value, ensure_ascii=False) if inside.pointers else value
    return without_secrets(value)


def _parsed(text: str) -> Any:
    """Return the JSON object, list or string that a text contains; None for other texts."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
