"""Builds a sample from a seed: two tenants with their suppliers, what came in for each, file names, and the truth.

The seed draws firms, numbers, days, articles, quantities, prices, forms, how often a situation occurs, and the order
of the files. Every situation occurs for every seed.
"""

# ruff: noqa: RUF001 - a file name in its own typography

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from random import Random

from tools.sample_generator import situations, strays, trading
from tools.sample_generator.cii import write_cii
from tools.sample_generator.firms import FirmRegistry, slug
from tools.sample_generator.model import Document, Kind
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_hybrid
from tools.sample_generator.sample import FileTruth, Sample, SampleFile, TrueLink
from tools.sample_generator.situations import Casebook, Filing, Form
from tools.sample_generator.trades import TRADES, Trade
from tools.sample_generator.trading import Buying, price_list
from tools.sample_generator.ubl import write_ubl
from tools.sample_generator.wording import WORDS

_SUPPLIERS_PER_TENANT = 5
_COMMON = (
    situations.full_chain,
    situations.short_chain,
    situations.partial_deliveries_billed_apart,
    situations.partial_deliveries_billed_once,
    situations.duplicate_invoice,
    situations.invoice_by_content,
    situations.unknown_order,
)
_RARER = (
    situations.rejected_and_credited,
    situations.same_number_of_two_suppliers,
    situations.invoice_by_delivery_note,
)
_WRITERS: dict[Form, Callable[[Document], bytes]] = {
    Form.UBL: write_ubl,
    Form.CII: write_cii,
    Form.HYBRID: write_hybrid,
}


@dataclass
class _Tray:
    """The files of one tenant so far, under names that differ by more than case."""

    tenant: str
    files: list[SampleFile]
    names: set[str]

    def add(self, name: str, content: bytes, truth: FileTruth) -> SampleFile:
        stem, dot, extension = name.replace("/", "-").rpartition(".")
        unique, count = f"{stem}{dot}{extension}", 1
        while unique.casefold() in self.names:
            count += 1
            unique = f"{stem} ({count}){dot}{extension}"
        self.names.add(unique.casefold())
        file = SampleFile(self.tenant, unique, content, truth)
        self.files.append(file)
        return file


def generate(seed: int) -> Sample:
    """Return the sample of this seed: always the same files, byte for byte, in the same order."""
    rng = Random(f"counterfoil sample {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    books = _open_books(rng)
    _fill(rng, books)
    _share(rng, *books)
    trays = {book.tenant: _Tray(book.tenant, [], set()) for book in books}
    names: dict[Filing, SampleFile] = {}
    contents: dict[tuple[int, Form], tuple[str, bytes]] = {}
    for book in books:
        for filing in book.filings:
            # A document that both tenants hold is rendered and named once, so that the copies are identical.
            key = (id(filing.document), filing.form)
            if key not in contents:
                contents[key] = (_file_name(rng, filing), _WRITERS[filing.form](filing.document))
            names[filing] = trays[book.tenant].add(*contents[key], _truth(filing))
    for book in books:
        _file_again(rng, book, trays[book.tenant], names)
    _add_strays(rng, books, trays)
    links = [
        TrueLink(book.tenant, names[link.a].name, names[link.b].name, link.kind, link.stated)
        for book in books
        for link in book.links
    ]
    files = _shuffled(rng, [file for book in books for file in trays[book.tenant].files], links)
    return Sample(seed, files, sorted(links, key=lambda link: (link.tenant, link.a, link.b)))


def _open_books(rng: Random) -> tuple[Casebook, Casebook]:
    """Open two tenants in different countries, each with two suppliers there and three abroad, one of them Swiss."""
    registry, numbers = FirmRegistry(rng), Numbers(rng)
    homes = (rng.choice(("DE", "FR")), rng.choice(("GB", "IT", "NL")))
    opened = trading.workday(date(rng.choice((2024, 2025)), 1, 2), rng.randint(0, 120))
    books = []
    for home, buyer_numbers in zip(homes, rng.sample((True, False), 2), strict=True):
        buyer = registry.buyer(home)
        suppliers = [
            price_list(rng, registry.supplier(trade), trade, buyer_numbers=buyer_numbers)
            for trade in _choose_trades(rng, home)
        ]
        books.append(Casebook(slug(buyer.short_name), buyer, suppliers, rng, numbers, opened))
    return books[0], books[1]


def _choose_trades(rng: Random, home: str) -> list[Trade]:
    domestic = [trade for trade in TRADES if trade.country == home]
    swiss = [trade for trade in TRADES if trade.country == "CH"]
    pounds_or_euros = [trade for trade in TRADES if trade.country == ("GB" if home != "GB" else "FR")]
    chosen = [*domestic, *swiss, rng.choice(pounds_or_euros)]
    others = [trade for trade in TRADES if trade not in chosen]
    return [*chosen, *rng.sample(others, _SUPPLIERS_PER_TENANT - len(chosen))]


def _fill(rng: Random, books: Sequence[Casebook]) -> None:
    """File the situations: the common ones in both tenants, each rarer one in one; invoices take each form in turn."""
    rarer = rng.sample(_RARER, len(_RARER))
    cut = rng.randint(1, len(rarer) - 1)
    for book, share in zip(books, (rarer[:cut], rarer[cut:]), strict=True):
        cases = [*_COMMON, *[situations.short_chain] * rng.randint(0, 1), *share]
        rng.shuffle(cases)
        forms = rng.sample(list(Form), len(Form))
        for place, case in enumerate(cases):
            case(book, forms[place % len(forms)])


def _share(rng: Random, one: Casebook, other: Casebook) -> None:
    """Let both tenants hold the same files: a whole deal, and an invoice whose order only one of them has."""
    source, target = rng.sample((one, other), 2)
    deals = {filing.situation: filing.cluster for filing in source.filings}
    situations.copy_deal(source, target, deals["order, delivery, invoice"])
    situations.copy_invoice(source, target, deals["full chain"])


def _file_name(rng: Random, filing: Filing) -> str:
    """Name a file as the firm that wrote it would: in its language, with blanks and letters beyond ASCII."""
    document = filing.document
    title, firm = WORDS[document.written_by.language].titles[document.kind], document.written_by.short_name
    stem = rng.choice(
        (
            f"{title} {document.number}",
            f"{title} {firm} {document.number}",
            f"{document.issued:%Y-%m-%d} {title} {document.number}",
            f"{firm}_{document.number}",
            f"{title} {document.number} ({firm})",
        )
    )
    return f"{stem}.{'pdf' if filing.form is Form.HYBRID else 'xml'}"


def _truth(filing: Filing) -> FileTruth:
    document = filing.document
    return FileTruth(
        state="succeeded",
        type=document.kind,
        situation=filing.situation,
        reason=filing.reason,
        received_at=filing.received,
        number=document.number,
        cluster=filing.cluster,
        structured_data=document.structured_data,
    )


def _file_again(rng: Random, book: Casebook, tray: _Tray, names: dict[Filing, SampleFile]) -> None:
    """File one or two invoices and an order a second time, with the same bytes under another name."""
    invoices = [filing for filing in book.filings if filing.document.kind is Kind.INVOICE]
    orders = [filing for filing in book.filings if filing.document.kind is Kind.PURCHASE_ORDER]
    for filing in [*rng.sample(invoices, rng.randint(1, 2)), *rng.sample(orders, 1)]:
        original = names[filing]
        truth = FileTruth(
            state="seen-again",
            type=original.truth.type,
            situation="exact duplicate",
            reason="the same bytes are in the tenant already: no second document",
            received_at=filing.received + timedelta(days=1, minutes=rng.randint(1, 300)),
            number=original.truth.number,
            same_as=original.name,
        )
        tray.add(f"{WORDS[book.buyer.language].copy} {original.name}", original.content, truth)


def _add_strays(rng: Random, books: Sequence[Casebook], trays: dict[str, _Tray]) -> None:
    """Add the files that are no readable documents, each to one tenant or the other."""

    def paper() -> Document:
        """Write an invoice for an order that nobody has filed."""
        book = rng.choice(books)
        buying = Buying(rng, book.numbers, book.buyer, rng.choice(book.suppliers))
        order = trading.place_order(buying, trading.workday(book.opened, rng.randint(30, 90)), 3)
        quantities = trading.all_of(order)
        day = trading.workday(order.issued, 9)
        return trading.bill(buying, order, quantities, day, {"po_reference": order.number})

    files = (
        (
            "failed",
            None,
            "Scan übertragen 1+2.pdf",
            strays.truncated_pdf(paper()),
            "the PDF ends too early to be opened",
        ),
        (
            "failed",
            None,
            "Rechnung vertraulich (€).pdf",
            strays.locked_pdf(paper()),
            "the PDF opens with a password only",
        ),
        ("failed", None, "aperçu.pdf", strays.pdf_without_pages(), "the PDF has no pages"),
        ("failed", None, "leere Datei.xml", b"", "the file is empty"),
        ("failed", None, "facture entité.xml", strays.xml_with_doctype(paper()), "the XML has a DOCTYPE: refused"),
        ("failed", None, "invoice no number.xml", strays.xml_without_number(paper()), "the invoice states no number"),
        ("failed", None, "fattura interrotta.xml", strays.xml_cut_off(paper()), "the XML ends in the middle"),
        ("failed", None, "Größe geprüft.xml", strays.xml_in_wrong_encoding(paper()), "the XML says UTF-8 and is not"),
        ("skipped", None, "Facture papier numérisée.pdf", strays.scanned_pdf(paper()), "a scan without text"),
        ("skipped", "other", "Inventur Halle 2.xml", strays.stock_list(rng), "XML of a kind that is not read"),
        ("skipped", "other", "Übergabe à l’équipe.txt", strays.note(rng), "a plain text"),
        ("skipped", "other", "données 100% brutes.dat", strays.noise(rng), "bytes of no known kind"),
    )
    for state, kind, name, content, reason in files:
        book = rng.choice(books)
        moment = datetime.combine(trading.workday(book.opened, rng.randint(20, 110)), time(rng.randint(7, 16), 30))
        situation = "unreadable" if state == "failed" else "not read"
        trays[book.tenant].add(name, content, FileTruth(state, kind, situation, reason, moment))


def _shuffled(rng: Random, files: list[SampleFile], links: Sequence[TrueLink]) -> list[SampleFile]:
    """Shuffle the files, and let an original stay ahead of its copies and duplicates."""
    drawn = {(file.tenant, file.name): rng.random() for file in files}
    originals = {(file.tenant, file.name): file.truth.same_as for file in files}
    originals |= {(link.tenant, link.a): link.b for link in links if link.kind == "duplicate-original"}

    def rank(tenant: str, name: str) -> float:
        original, own = originals[tenant, name], drawn[tenant, name]
        return own if original is None else max(own, math.nextafter(rank(tenant, original), 2))

    return sorted(files, key=lambda file: rank(file.tenant, file.name))
