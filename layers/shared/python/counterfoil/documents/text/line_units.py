"""The unit that the description of a line states, where no column of the table does. Pure."""

import re

from counterfoil.documents.units import code

_IN_BRACKETS = re.compile(r"\(([^\W\d]+)\)\s*:?", re.UNICODE)
_PER = re.compile(r"\b(?:pro|je|per|par|por)\s+([^\W\d]+)\s*:?$", re.IGNORECASE)


def stated_in(description: str) -> str | None:
    """Return the unit that a description states for its quantity: `Consulting (hours)`, `Hot air per litre`."""
    for pattern in (_IN_BRACKETS, _PER):
        for match in pattern.finditer(description):
            if (found := code(match[1])) is not None and len(match[1]) > 1:
                return found
    return None
