"""Generate an archive, deal by deal, for tenants of very different sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

LARGEST_SHARE = 0.2
"""Share of all documents that belong to the largest tenant."""
TYPOS = 0.2
"""Share of names and references with a typo."""
_FROM = date(2024, 1, 1)
_DAYS = 730
_SYLLABLES = """
ka lo mer tin bra sto vel nor hau sen gri del fal wit zon rup mas tel bor hin dra lem pos quil ver
""".split()  # noqa: SIM905
_TRADES = """
Stahl Elektro Papier Chemie Logistik Technik Medizin Holz Kunststoff Werkzeug Bau Textil
""".split()  # noqa: SIM905
_FORMS = ["GmbH", "AG", "KG", "GmbH & Co. KG", "S.r.l.", "B.V.", "Ltd", "SARL"]
_DOCUMENTS_PER_SUPPLIER = 150


@dataclass(frozen=True)
class Firm:
    """A supplier or buyer."""

    name: str
    vat_id: str
    city: str


@dataclass(frozen=True)
class ArchiveDocument:
    """A generated document.

    `order` is the id of its purchase order, or None if it is a purchase order.
    """

    id: UUID
    tenant: int
    kind: str
    received_at: datetime
    data: dict[str, Any]
    order: UUID | None


def sizes(documents: int, tenants: int) -> list[int]:
    """Return the number of documents of each tenant.

    The first tenant gets a fifth of all documents. The remaining documents are distributed over the other tenants by
    Zipf's law.
    """
    first = int(documents * LARGEST_SHARE)
    weights = [1 / rank for rank in range(2, tenants + 1)]
    rest = [int((documents - first) * weight / sum(weights)) for weight in weights]
    return [first, *rest]


class Tenant:
    """A tenant with suppliers and articles, determined by seed and tenant number."""

    def __init__(self, number: int, size: int, seed: int = 0) -> None:
        """Generate suppliers and articles."""
        self.number, self.size = number, size
        self._random = Random(f"{seed}/{number}")
        self._own = [self._firm() for _ in range(2)]
        self._suppliers = [self._firm() for _ in range(max(5, size // _DOCUMENTS_PER_SUPPLIER))]
        self._articles = [
            [
                (f"{self._random.randrange(10**5):05}", self._words(), f"{self._random.uniform(1, 400):.2f}")
                for _ in range(15)
            ]
            for _ in self._suppliers
        ]
        self._made = 0
        self._deals = 0

    def documents(self) -> Iterator[ArchiveDocument]:
        """Yield the tenant's documents, deal by deal."""
        while self._made < self.size:
            for doc in self._deal():
                if self._made < self.size:
                    self._made += 1
                    yield doc

    def _deal(self) -> Iterator[ArchiveDocument]:
        random = self._random
        self._deals += 1
        supplier = random.randrange(len(self._suppliers))
        seller, buyer = self._suppliers[supplier], random.choice(self._own)
        day = _FROM + timedelta(days=random.randrange(_DAYS))
        number = f"PO-{day.year}-{self._deals:06}" if self.number % 2 else f"45{self._deals:08}"
        lines = [
            {"article_number": article, "description": text, "unit": "C62", "unit_price": price,
             "quantity": str(random.choice([1, 2, 5, 10, 20, 50, 100]))}
            for article, text, price in random.sample(self._articles[supplier], random.randint(1, 4))
        ]  # fmt: skip
        net = f"{sum(float(line['unit_price']) * float(line['quantity']) for line in lines):.2f}"
        order = self._document(
            "purchase_order", "po_number", number, "order_date", day, seller, buyer, lines, None, net
        )
        yield order
        goods = [{name: value for name, value in line.items() if name != "unit_price"} for line in lines]
        for kind, own, field, share, wait, stated in (
            ("order_confirmation", "confirmation_number", "confirmation_date", 0.4, 3, lines),
            ("delivery_note", "delivery_note_number", "delivery_date", 0.9, 14, goods),
            ("goods_receipt", "receipt_number", "receipt_date", 0.5, 15, goods),
            ("invoice", "invoice_number", "invoice_date", 1.0, 20, lines),
        ):
            if random.random() < share:
                then = day + timedelta(days=random.randint(1, wait))
                total = net if stated is lines else None
                mine = f"{kind[:2].upper()}{random.randrange(10**7):07}"
                doc = self._document(kind, own, mine, field, then, seller, buyer, stated, order.id, total)
                if random.random() < 0.9:
                    doc.data["po_reference"] = self._typo(number)
                yield doc

    def _document(
        self, kind: str, own: str, number: str, field: str, day: date, seller: Firm, buyer: Firm,
        lines: list[dict[str, str]], order: UUID | None, net: str | None,
    ) -> ArchiveDocument:  # fmt: skip
        sides = ("issuer", "recipient") if kind == "invoice" else ("supplier", "buyer")
        data: dict[str, Any] = {own: number, field: day.isoformat(), "line_items": lines}
        for side, firm in zip(sides, (seller, buyer), strict=True):
            data[side] = {"name": self._typo(firm.name), "city": firm.city}
            if self._random.random() < 0.6:
                data[side]["vat_id"] = firm.vat_id
        if net is not None:
            data |= {"currency": "EUR", "total_net": net}
        received = datetime(day.year, day.month, day.day, 9, tzinfo=UTC) + timedelta(days=self._random.randint(0, 3))
        return ArchiveDocument(UUID(int=self._random.getrandbits(128)), self.number, kind, received, data, order)

    def _firm(self) -> Firm:
        name = "".join(self._random.choices(_SYLLABLES, k=3)).capitalize()
        vat = f"DE{self._random.randrange(10**9):09}"
        city = "".join(self._random.choices(_SYLLABLES, k=2)).capitalize()
        return Firm(f"{name} {self._random.choice(_TRADES)} {self._random.choice(_FORMS)}", vat, city)

    def _words(self) -> str:
        return " ".join("".join(self._random.choices(_SYLLABLES, k=2)) for _ in range(3))

    def _typo(self, text: str) -> str:
        """Drop, double, swap or replace a character with probability `TYPOS`."""
        random = self._random
        if random.random() >= TYPOS:
            return text
        at = random.randrange(len(text) - 1)
        kind = random.randrange(4)
        if kind == 0:
            return text[:at] + text[at + 1 :]
        if kind == 1:
            return text[: at + 1] + text[at:]
        if kind == 2:
            return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        other = random.choice("0123456789" if text[at].isdigit() else "abcdefghijklmnopqrstuvwxyz")
        return text[:at] + other + text[at + 1 :]
