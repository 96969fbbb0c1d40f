"""Full ids and short ids.

A short id consists of an id's last characters, which are random.
"""

import re
from uuid import UUID

SHORT_ID_LENGTH = 8
"""Number of characters of an id shown in tables."""
MIN_LENGTH = 4
PARTIAL_ID = re.compile(rf"[0-9a-f-]{{{MIN_LENGTH},36}}")
FULL_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short_id(id_: UUID | str | None) -> str:
    """Return an id as displayed in tables."""
    return "" if id_ is None else str(id_)[-SHORT_ID_LENGTH:]
