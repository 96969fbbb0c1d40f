"""What rules read on pages, in the form in which it is compared with what a language model reads."""

from collections.abc import Sequence

from counterfoil.documents import labels
from counterfoil.documents.reading.choice import Read
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.text.evidence import Evidence
from counterfoil.documents.text.page import Page


def by_rules(pages: Sequence[Page]) -> Read | None:
    """What rules read; None where they find no document that they know."""
    fields = labels.read_invoice("\n".join(page.text for page in pages))
    if fields is None:
        return None
    evidence = {name: Evidence("label", 0.9, 1) for name, value in fields.items() if isinstance(value, str)}
    return Read(DocumentType.INVOICE, fields, evidence)
