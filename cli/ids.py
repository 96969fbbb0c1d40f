"""Ids, whole or their last letters, which are random."""

import re
from uuid import UUID

SHOWN = 8
"""Letters of an id that tables show."""
LEAST = 4
PART = re.compile(rf"[0-9a-f-]{{{LEAST},36}}")
WHOLE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short(id_: UUID | str | None) -> str:
    """An id as tables show it."""
    return "" if id_ is None else str(id_)[-SHOWN:]
