"""What is wanting in what was read of a document: fields that its type has to have, and amounts that disagree. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text import totals
from counterfoil.documents.text.evidence import Evidence

SURE = 0.6
"""The least confidence in an essential field with which it is relied upon."""

_BILLED = ("currency", "total_gross", "line_items")
_ESSENTIAL: Mapping[DocumentType, tuple[str, ...]] = MappingProxyType(
    {
        DocumentType.INVOICE: _BILLED,
        DocumentType.CREDIT_NOTE: _BILLED,
        DocumentType.PURCHASE_ORDER: ("line_items",),
        DocumentType.ORDER_CONFIRMATION: ("line_items",),
        DocumentType.DELIVERY_NOTE: ("line_items",),
        DocumentType.GOODS_RECEIPT: ("line_items",),
        DocumentType.CONTRACT: (),
    }
)
"""What a document of a type states, besides its own number, its date and the names of both sides."""


@dataclass(frozen=True)
class Review:
    """What is wanting. `missing` and `doubtful` are paths of fields; `contradictions` has a sentence each."""

    missing: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing is."""
        return not (self.missing or self.contradictions or self.doubtful)


def review(type_: DocumentType, fields: Mapping[str, Any], evidence: Mapping[str, Evidence]) -> Review:
    """Look at what was read. Nothing is expected of a document of another kind."""
    paths = tuple(essentials(type_))
    missing = tuple(path for path in paths if not _at(fields, path))
    doubtful = tuple(path for path in paths if path in evidence and evidence[path].confidence < SURE)
    return Review(missing, tuple(contradictions(fields)), doubtful)


def essentials(type_: DocumentType) -> Iterator[str]:
    """The paths of what a document of a type states."""
    roles = ROLES.get(type_)
    if roles is not None:
        yield from (roles.number, roles.date, f"{roles.seller}.name", f"{roles.buyer}.name")
        yield from _ESSENTIAL[type_]


def contradictions(fields: Mapping[str, Any]) -> Iterator[str]:
    """Amounts that disagree, a sentence each, by the names of their fields."""
    if not totals_agree(fields):
        yield "total_net and total_tax do not add up to total_gross."
    lines = fields.get("line_items") or ()
    if lines_agree(lines, fields) is False:
        yield "The net amounts of the lines do not add up to total_net."


def totals_agree(fields: Mapping[str, Any]) -> bool:
    """Whether net and tax make the gross total; true where one of them is not stated."""
    net, tax, gross = (_decimal(fields.get(name)) for name in ("total_net", "total_tax", "total_gross"))
    return net is None or tax is None or gross is None or totals.gross_agrees(net, tax, gross)


def lines_agree(lines: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> bool | None:
    """Whether the lines make the net total; None where that cannot be told."""
    net = _decimal(fields.get("total_net"))
    amounts = [_decimal(line.get("net_amount")) for line in lines]
    known = [amount for amount in amounts if amount is not None]
    if net is None or not known or len(known) < len(amounts):
        return None
    return totals.sum_agrees(known, net)


def _at(fields: Mapping[str, Any], path: str) -> Any:
    value: Any = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _decimal(value: Any) -> Decimal | None:
    try:
        return None if value is None else Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        return None
