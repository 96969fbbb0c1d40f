"""The version of what is answered, as strong entity tags of HTTP (RFC 9110, 8.8.3)."""

import re

from counterfoil.dead_letters.actions import VersionError
from counterfoil.errors import RejectedRequestError

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\U0010ffff]*")')


_STRONG = re.compile(r'"(\d{1,9})"')


class NoConditionError(RejectedRequestError):
    """A change does not say what it is a change of."""


def etag(version: int) -> str:
    """The tag of a version."""
    return f'"{version}"'


def names(condition: str | None, version: int) -> bool:
    """Whether If-None-Match names this version: among its tags, compared weakly, or with an asterisk."""
    if condition is None:
        return False
    return condition.strip() == "*" or etag(version) in _TAG.findall(condition)


def seen(condition: str | None) -> int:
    """The version that If-Match names: of several the newest, for versions only grow.

    Raises:
        NoConditionError: there is none. An asterisk would change what the caller has not seen.
        VersionError: it names none of ours.
    """
    if condition is None or condition.strip() in {"", "*"}:
        raise NoConditionError("If-Match is needed: the ETag of the dead letter as you saw it.")
    versions = [
        int(version) for tag in condition.split(",") for version in _STRONG.findall(tag) if tag.strip()[0] == '"'
    ]
    if not versions:
        raise VersionError("If-Match is the ETag of the dead letter as you saw it.")
    return max(versions)
