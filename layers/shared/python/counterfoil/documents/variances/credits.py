"""What credit notes take back: goods, at the price that they were billed at, or a part of a price. Pure."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from uuid import UUID

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.variances.case import Case
from counterfoil.documents.variances.ledger import Entry, Item, total
from counterfoil.documents.variances.model import Document, money
from counterfoil.documents.variances.wording import measured

_ZERO = Decimal(0)
_CENT = Decimal("0.01")
_AWAY = Decimal("0.1")
"""A credit for so much more or less than the price that was billed is about the price, and gives no goods back."""


def goods_back(item: Item) -> list[Entry]:
    """The lines that take goods back: those at the price that was billed, and those that state none."""
    return [entry for entry in item.of(DocumentType.CREDIT_NOTE) if entry.quantity and not _is_of_price(item, entry)]


def _is_of_price(item: Item, entry: Entry) -> bool:
    """Whether a line credits a part of the price."""
    billed = [one.price for one in item.of(DocumentType.INVOICE) if one.price]
    return entry.price is not None and all(abs(abs(entry.price) / abs(one) - 1) > _AWAY for one in billed)


def price_credited(item: Item, too_high: Sequence[tuple[Entry, Decimal]]) -> str | None:
    """The credit notes that give back what prices were too high by, where they do.

    `too_high` has the lines that were, in the order of their dates, each with the excess for one unit.
    """
    amounts = [one for one in item.of(DocumentType.CREDIT_NOTE) if one.line.net and _is_of_price(item, one)]
    too_much = sum((excess * (entry.quantity or _ZERO) for entry, excess in too_high), _ZERO)
    if amounts and _worth(amounts) >= too_much - _CENT:
        return _credits(amounts, money(_worth(amounts), amounts[0].document.currency))
    goods = goods_back(item)
    billed = total(entry.quantity or _ZERO for entry, _ in too_high)
    return _credits(goods, measured(billed, item)) if goods and _returned(goods) >= billed > 0 else None


def _returned(goods: Iterable[Entry]) -> Decimal:
    return total(abs(entry.quantity or _ZERO) for entry in goods)


def _worth(entries: Iterable[Entry]) -> Decimal:
    return sum((abs(entry.line.net or _ZERO) for entry in entries), _ZERO)


def _credits(entries: Iterable[Entry], what: str) -> str:
    notes = list(dict.fromkeys(entry.document.heading for entry in entries))
    return f"{' and '.join(notes)} {'credits' if len(notes) == 1 else 'credit'} {what}."


def goods_credited(item: Item, excess: Decimal) -> str | None:
    """The credit notes that take back what was billed too much, where they do."""
    goods = goods_back(item)
    taken_back = _returned(goods)
    return _credits(goods, measured(taken_back, item)) if goods and taken_back >= excess else None


def cancelled(case: Case) -> dict[UUID, str]:
    """The duplicates that a credit note over a whole bill takes back, each with a sentence about it.

    Of bills that are the same one, a credit note over any of them leaves one less to be paid.
    """
    copies: dict[UUID, list[UUID]] = {}
    for id_, original in case.duplicates.items():
        copies.setdefault(original.id, []).append(id_)
    by_id = {document.id: document for document in case.documents}
    found: dict[UUID, str] = {}
    for original_id, duplicates in copies.items():
        left = [by_id[id_] for id_ in duplicates]
        for credit in case.effective(DocumentType.CREDIT_NOTE):
            taken = next((one for one in left if _is_over_all(case, credit, one)), None)
            if taken is not None:
                found[taken.id] = f"{credit.heading} credits all of it."
            elif left and _is_over_all(case, credit, by_id[original_id]):
                taken = left[0]
                found[taken.id] = f"{credit.heading} credits all of {by_id[original_id].title}."
            if taken is not None:
                left.remove(taken)
    return found


def _is_over_all(case: Case, credit: Document, invoice: Document) -> bool:
    """Whether a credit note is about an invoice, and over all of it."""
    if credit.id not in case.neighbours.get(invoice.id, ()) or credit.gross is None or invoice.gross is None:
        return False
    return abs(credit.gross) == abs(invoice.gross)
