"""Entity tags of HTTP (RFC 9110, 8.8.3): strong ones are a thing's version, weak ones are of an answer as it is.

Whoever has an answer already names its tag in If-None-Match, and is told 304 instead: pages of the console ask each
second.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from counterfoil.errors import RejectedRequestError, VersionError

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\U0010ffff]*")')
_STRONG = re.compile(r'"(\d{1,18})"')
_DIGITS = 32
"""Of a tag: 128 bits of SHA-256."""


class NoConditionError(RejectedRequestError):
    """A change does not say what it is a change of."""


def etag(version: int | str) -> str:
    """The tag of a version."""
    return f'"{version}"'


def names(condition: str | None, version: int | str) -> bool:
    """Whether If-None-Match names this version: among its tags, compared weakly, or with an asterisk."""
    return _has(condition, etag(version))


def _has(condition: str | None, tag: str) -> bool:
    if condition is None:
        return False
    return condition.strip() == "*" or tag in _TAG.findall(condition)


def conditional(event: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a GET with a tag, or 304 in its place where the caller has it already.

    Routes whose answers have a version tag them themselves; those in base64 are no lists that change.
    """
    headers = answer["headers"]
    is_asked = event["requestContext"]["http"]["method"] == "GET" and answer["statusCode"] == 200  # OK
    if not is_asked or "ETag" in headers or answer.get("isBase64Encoded"):
        return answer
    tag = f'"{hashlib.sha256(answer["body"].encode(errors="surrogatepass")).hexdigest()[:_DIGITS]}"'
    tagged = {**headers, "ETag": f"W/{tag}"}
    if not _has(event["headers"].get("if-none-match"), tag):
        return {**answer, "headers": tagged}
    return {**answer, "statusCode": 304, "headers": {"ETag": tagged["ETag"]}, "body": ""}


def seen_if_sent(condition: str | None) -> int | None:
    """Return the version that If-Match names; None if it names none or any.

    Raises:
        VersionError: it names no version of ours.
    """
    return None if condition is None or condition.strip() in {"", "*"} else seen(condition)


def seen(condition: str | None) -> int:
    """The version that If-Match names: of several the newest, for versions only grow.

    Raises:
        NoConditionError: there is none. An asterisk would change what the caller has not seen.
        VersionError: it names none of ours.
    """
    if condition is None or condition.strip() in {"", "*"}:
        raise NoConditionError("If-Match is needed: the ETag of what is changed, as you saw it.")
    versions = [
        int(version) for tag in condition.split(",") for version in _STRONG.findall(tag) if tag.strip()[0] == '"'
    ]
    if not versions:
        raise VersionError("If-Match is the ETag of what is changed, as you saw it.")
    return max(versions)
