"""Hides secrets in dead letters' JSON values from roles that may not see them.

This hides:

- values under the name of a secret (password, token, API key, cookie, ...), including nested values
- values next to the name of a secret: `{"name": "X-Api-Key", "value": ...}`, `["Authorization", ...]`, `--password X`
- private members of JSON Web Keys, and the data of Kubernetes secrets
- secrets in texts and in names, see `text_redaction`
- account numbers (IBAN, ISO 13616) and card numbers with valid check digits, except for their last four characters
- bodies of emails, messages and requests

Each secret is replaced by a placeholder. The structure of objects and lists is unchanged.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from counterfoil.dead_letters.text_redaction import (
    REDACTED,
    SESSION_ID,
    VISIBLE_CHARS,
    is_fact,
    is_secret_label,
    is_secret_name,
    is_uuid,
    looks_random,
    without_secrets,
)

_Rule = Callable[[Any], Any]
"""Function that returns the visible form of a leaf value."""


class Redacted(NamedTuple):
    """A JSON value with its secrets hidden."""

    value: Any
    """JSON value with the original structure."""
    pointers: list[str]
    """JSON pointers (RFC 6901) to hidden values. If a name contains a secret, the pointer hides it too."""


def without_traceback(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dead letter's fields without tracebacks, which only admins may read."""
    visible = dict(fields)
    if "metadata" in fields:
        visible["metadata"] = _without_traceback(fields["metadata"])
    if "previous_failures" in fields:
        visible["previous_failures"] = [_without_traceback(failure) for failure in fields["previous_failures"]]
    return visible


def _without_traceback(failure: Mapping[str, Any]) -> dict[str, Any]:
    error = failure.get("last_error") or {}
    if "traceback" not in error.get("context", {}):
        return dict(failure)
    context = {name: value for name, value in error["context"].items() if name != "traceback"}
    return {**failure, "last_error": {**error, "context": context}}


def redact(value: Any) -> Redacted:
    """Hide the secrets in a JSON value. Idempotent."""
    pointers: list[str] = []
    return Redacted(_redact_value(value, "", _redact_text, pointers), pointers)


def _redact_value(value: Any, pointer: str, rule: _Rule, pointers: list[str]) -> Any:
    if isinstance(value, Mapping):
        secret_names = _secret_members(value) if rule is _redact_text else set()
        redacted: dict[str, Any] = {}
        for name, item in value.items():
            visible = _visible_name(name, redacted)
            item_rule = _redact_leaf if name in secret_names else _rule_for(name, value, rule)
            redacted[visible] = _redact_value(item, f"{pointer}/{_escape_name(visible)}", item_rule, pointers)
            if visible != name:
                pointers.append(f"{pointer}/{_escape_name(visible)}")
        return redacted
    if isinstance(value, list):
        secret_items = _secret_items(value) if rule is _redact_text else set()
        return [
            _redact_value(item, f"{pointer}/{index}", _redact_leaf if index in secret_items else rule, pointers)
            for index, item in enumerate(value)
        ]
    leaf = rule(value)
    if leaf != value:
        pointers.append(pointer)
    return leaf


def _escape_name(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# -- names next to their values ---------------------------------------------------------------------------------

_NAME_MEMBERS = {
    "name",
    "key",
    "header",
    "headername",
    "field",
    "parameter",
    "param",
    "variable",
    "property",
    "label",
    "loc",
}
_VALUE_MEMBERS = {"value", "values", "val", "content", "data", "input", "text", "string"}
_PAIR_LENGTH = 2


_JWK = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
"""Private members of a JSON Web Key (RFC 7518, 6)."""


def _secret_members(value: Mapping[str, Any]) -> set[str]:
    """Return the names of members that are secrets because of other members.

    These are the private members of a JSON Web Key and the data of a Kubernetes secret. If a member such as `name`
    contains the name of a secret, or a list that ends with one, members such as `value` are secrets.
    """
    if isinstance(value.get("kty"), str):
        return _JWK
    if value.get("kind") == "Secret":
        return {"data", "stringData"}
    normalized = {name: _normalize(name) for name in value}
    if not any(
        is_secret_label(member[-1] if isinstance(member, list) and member else member)
        for name, member in value.items()
        if normalized[name] in _NAME_MEMBERS
    ):
        return set()
    return {name for name, member in normalized.items() if member in _VALUE_MEMBERS}


def _secret_items(value: list[Any]) -> set[int]:
    """Return the indexes of items that follow the name of a secret.

    The list is a pair, a list of alternating names and values, or contains a command-line option.
    """
    return {
        index
        for index in range(1, len(value))
        if is_secret_label(value[index - 1])
        and (len(value) == _PAIR_LENGTH or value[index - 1].startswith("-") or (index % 2 and len(value) % 2 == 0))
    }


# -- by names -------------------------------------------------------------------------------------------------------

_MAIL_SUBJECT = "subject"
_MAIL_PEOPLE = {"from", "to", "sender", "recipient", "recipients"}
_MAIL_TEXTS = {"text", "html", "plain", "content", "parts", "message"}
_MIN_SECRET_CHARS = 16


def _visible_name(name: str, existing: Mapping[str, Any]) -> str:
    """Return a name with its secrets hidden.

    If the result is already in `existing`, a number is added.
    """
    if len(name) < _MIN_SECRET_CHARS or name == (visible := without_secrets(name)):
        return name
    number = 1
    while (numbered := visible if number == 1 else f"{visible} {number}") in existing:
        number += 1
    return numbered


def _rule_for(name: str, members: Mapping[str, Any], rule: _Rule) -> _Rule:
    """Return the rule for the value under a name.

    Values nested in a secret are secret too.
    """
    if rule is not _redact_text:
        return rule
    normalized, name_rule = _cached_rule_by_name(name) if len(name) <= _MAX_CACHED_CHARS else _rule_by_name(name)
    if name_rule is not None:
        return name_rule
    if normalized in _MAIL_TEXTS:
        names = set(map(_normalize, members))
        return _redact_leaf if _MAIL_SUBJECT in names and names & _MAIL_PEOPLE else _redact_text
    return _redact_text


def _rule_by_name(name: str) -> tuple[str, _Rule | None]:
    """Return the normalized name, and the rule for its value.

    The rule is None if the name alone does not determine it.
    """
    normalized = _normalize(name)
    rule: _Rule | None = None
    if name == SESSION_ID:
        rule = _redact_unless_uuid
    elif is_secret_name(name):
        rule = _redact_except_counts if normalized.endswith("tokens") else partial(_redact_unless_fact, name)
    elif normalized.startswith("body") or normalized.endswith("body"):
        rule = _redact_except_counts
    elif normalized.endswith("iban"):
        rule = _redact_account
    elif normalized == "key":
        rule = _redact_unless_harmless
    return normalized, rule


def _normalize(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_MAX_CACHED_CHARS = 64
"""Maximum length of a cached name. Longer names are rare and would use too much memory."""
_cached_rule_by_name = lru_cache(maxsize=2048)(_rule_by_name)


def _redact_leaf(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


def _redact_except_counts(value: Any) -> Any:
    """Hide everything except numbers, which count tokens or a body's bytes."""
    return value if isinstance(value, int | float) else _redact_leaf(value)


def _redact_unless_fact(name: str, value: Any) -> Any:
    return value if is_fact(name, value) else _redact_leaf(value)


def _redact_unless_uuid(value: Any) -> Any:
    return value if isinstance(value, str) and is_uuid(value) else _redact_leaf(value)


def _redact_unless_harmless(value: Any) -> Any:
    return REDACTED if isinstance(value, str) and looks_random(value) else _redact_text(value)


_REDACTED_ACCOUNT = re.compile(rf"{re.escape(REDACTED)}(?: [A-Za-z0-9]{{4}})?")
_MIN_ACCOUNT_CHARS = 12


def _redact_account(value: Any) -> Any:
    if not isinstance(value, str) or _REDACTED_ACCOUNT.fullmatch(value):
        return value if isinstance(value, str) else _redact_leaf(value)
    letters = re.sub(r"[^A-Za-z0-9]", "", value)
    return f"{REDACTED} {letters[-VISIBLE_CHARS:]}" if len(letters) >= _MIN_ACCOUNT_CHARS else _redact_leaf(value)


# -- texts ----------------------------------------------------------------------------------------------------------


def _redact_text(value: Any) -> Any:
    """Return a string with its secrets hidden, and any other value unchanged."""
    if not isinstance(value, str):
        return value
    if (parsed := _parse_json(value)) is not None:
        redacted = redact(parsed)
        return json.dumps(redacted.value, ensure_ascii=False) if redacted.pointers else value
    return without_secrets(value)


def _parse_json(text: str) -> Any:
    """Parse a text as a JSON object, list or string.

    Returns None if the text is something else.
    """
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
