"""Ids, complete or their last characters, which are random."""

import re
from uuid import UUID

SHOWN = 8
"""Characters of an id in tables."""
LEAST = 4
PART = re.compile(rf"[0-9a-f-]{{{LEAST},36}}")
WHOLE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short(id_: UUID | str | None) -> str:
    """Return an id as displayed in tables."""
    return "" if id_ is None else str(id_)[-SHOWN:]
