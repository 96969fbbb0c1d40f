"""What every reader of an XML vocabulary returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.documents.structured import DocumentType


@dataclass(frozen=True)
class Reading:
    """What an XML document states, as it states it.

    `fields` bears the names of the structured data and may hold more than the type has; values are strings as stated,
    not yet checked. `lacks_required_lines` says that the document states no lines where its type and profile need them.
    """

    type: DocumentType
    fields: Mapping[str, Any]
    lacks_required_lines: bool = False
