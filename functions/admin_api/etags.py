"""The version of what is answered, as strong entity tags of HTTP (RFC 9110, 8.8.3)."""

import re

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\U0010ffff]*")')


def etag(version: int) -> str:
    """The tag of a version."""
    return f'"{version}"'


def names(condition: str | None, version: int) -> bool:
    """Whether If-None-Match names this version: among its tags, compared weakly, or with an asterisk."""
    if condition is None:
        return False
    return condition.strip() == "*" or etag(version) in _TAG.findall(condition)
