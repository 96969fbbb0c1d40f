"""PDF renderer for sample documents. Invoices can embed CII.

The pages use the PDF core fonts in Windows-1252, which includes umlauts, accents and the euro sign, so no font file is
required. A hybrid has `factur-x.xml` as an associated file (AFRelationship Alternative) and the Factur-X XMP
properties, as PDF/A-3 hybrids do. It does not claim PDF/A conformance, which requires embedded fonts. The file's dates
are the document's issue date.
"""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import cast
from xml.sax.saxutils import escape

from babel import Locale
from babel.dates import format_date
from babel.numbers import format_currency, format_decimal
from fpdf import FPDF
from fpdf.enums import MethodReturnValue, XPos, YPos

from tools.sample_generator.cii import write_cii
from tools.sample_generator.labels import LABELS, Labels
from tools.sample_generator.layout import PLAIN, Layout
from tools.sample_generator.model import WITHOUT_PRICES, Document, Kind, Line, plain

_LEFT, _WIDTH = 20, 170
_COLUMN_WIDTHS = (9, 25, 56, 23, 25, 11, 21)
_COLUMN_ALIGNS = ("L", "L", "L", "R", "R", "R", "R")
_UNPRICED_COLUMNS = 4
_CARRIED_HEIGHT = 6
_GRAY, _BLACK = (105, 105, 105), (25, 25, 25)
_UNIT_NAMES = {
    "C62": "",
    "XCT": "Ktn",
    "XBX": "box",
    "XRO": "rl",
    "KGM": "kg",
    "LTR": "l",
    "MTR": "m",
    "MTK": "m²",
    "SET": "set",
    "PR": "pr",
}
_XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/">
  <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
    <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
      <dc:title><rdf:Alt><rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title>
    </rdf:Description>
    <rdf:Description rdf:about="" xmlns:fx="urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#">
      <fx:DocumentType>INVOICE</fx:DocumentType>
      <fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>
      <fx:Version>1.0</fx:Version>
      <fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>
    </rdf:Description>
  </rdf:RDF>
</x:xmpmeta>"""


def write_hybrid(document: Document) -> bytes:
    """Return the invoice as a PDF with its CII embedded as `factur-x.xml`."""
    page = _DocumentPdf(document)
    page.draw()
    page.set_xmp_metadata(_XMP.format(title=escape(page.heading)))
    page.embed_file(
        bytes=write_cii(document),
        basename="factur-x.xml",
        mime_type="text/xml",
        associated_file_relationship="Alternative",
        desc="Factur-X",
        creation_date=page.moment,
        modification_date=page.moment,
        compress=True,
        checksum=True,
    )
    return bytes(page.output())


def write_page(document: Document, *, layout: Layout = PLAIN, password: str | None = None) -> bytes:
    """Return the document as a PDF with a text layer but no XML.

    It is encrypted if `password` is given.
    """
    page = _DocumentPdf(document, layout)
    if password is not None:
        page.set_encryption(owner_password=password, user_password=password)
    page.draw()
    return bytes(page.output())


class _DocumentPdf(FPDF):
    """A document on its company's letterhead."""

    def __init__(self, document: Document, layout: Layout = PLAIN) -> None:
        super().__init__(format="A4")
        self.document = document
        self.layout = layout
        self.carried = Decimal(0)
        self.company = document.issuer
        self.labels: Labels = LABELS[self.company.language]
        self.locale = f"{self.company.language}_{self.company.country}"
        self.heading = f"{self.labels.titles[document.kind]} {document.number}"
        self.moment = datetime.combine(document.issue_date, time(8), UTC)
        self.core_fonts_encoding = "windows-1252"
        self.set_creation_date(self.moment)
        self.set_title(self.heading)
        self.set_author(self.company.name)
        self.set_lang(self.locale.replace("_", "-"))
        self.set_margins(_LEFT, 40, _LEFT)
        self.set_auto_page_break(True, margin=38)

    def draw(self) -> None:
        """Draw the document on as many pages as necessary."""
        self.add_page()
        self._address()
        self._facts()
        self._title()
        self._table()
        if self._is_priced:
            self._totals()
        self._closing()

    @property
    def _is_priced(self) -> bool:
        return self.document.kind not in WITHOUT_PRICES

    def header(self) -> None:
        """Draw the letterhead on the first page.

        On later pages, the layout determines whether the letterhead and the document heading are drawn.
        """
        if self.page_no() == 1 or self.layout.letterhead_on_every_page:
            self._letterhead()
        if self.page_no() > 1 and self.layout.names_itself_on_every_page:
            self.set_xy(_LEFT, 33)
            self._font(8, "", _GRAY)
            self.cell(_WIDTH, 5, self.heading)
        self.set_xy(_LEFT, 40)

    def _letterhead(self) -> None:
        """Draw a band in the company's color, its name and its slogan."""
        self.set_fill_color(*self.company.color)
        self.rect(0, 0, self.w, 5, style="F")
        self.set_xy(_LEFT, 13)
        self._font(19, "B", self.company.color)
        self.cell(_WIDTH, 9, self.company.name, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self._font(9, "I", _GRAY)
        self.cell(_WIDTH, 5, self.company.claim)
        self.set_draw_color(*self.company.color)
        self.line(_LEFT, 31, _LEFT + _WIDTH, 31)

    def footer(self) -> None:
        """Draw the page number if the layout has one, and the company's details.

        The details are the company's address, register and bank, in three columns. Later pages may omit them.
        """
        numbers = {
            "none": "",
            "place": f"{self.labels.page} {self.page_no()}",
            "place of count": f"{self.labels.page} {self.page_no()} {self.labels.page_of} {{nb}}",
        }
        self.set_xy(_LEFT, 286)
        self._font(7.5, "", _GRAY)
        self.cell(_WIDTH, 4, numbers[self.layout.page_numbers], align="R")
        if self.page_no() == 1 or self.layout.letterhead_on_every_page:
            self._imprint()

    def _imprint(self) -> None:
        company, labels = self.company, self.labels
        self.set_draw_color(*company.color)
        self.line(_LEFT, 267, _LEFT + _WIDTH, 267)
        self._font(7.5, "", _GRAY)
        tax_number = f"{labels.tax_number} {company.tax_number}" if company.tax_number else company.email
        columns = (
            (company.name, company.street, f"{company.postal_code} {company.city}", company.phone),
            (f"{company.register} {company.registration_id.removeprefix(company.register).strip()}",
             f"{labels.vat_id} {company.vat_id}", tax_number, ""),
            (labels.bank, company.bank, _format_iban(company.iban), ""),
        )  # fmt: skip
        for column_index, column in enumerate(columns):
            for row, text in enumerate(column):
                self.set_xy(_LEFT + column_index * _WIDTH / 3, 269 + row * 4)
                self.cell(_WIDTH / 3, 4, text)

    def _font(self, size: float, style: str = "", color: tuple[int, int, int] = _BLACK) -> None:
        self.set_font("Helvetica", style, size)
        self.set_text_color(*color)

    def _address(self) -> None:
        document, company = self.document, self.company
        recipient = document.seller if document.kind is Kind.PURCHASE_ORDER else document.buyer
        self.set_xy(_LEFT, 45)
        self._font(6.5, "", _GRAY)
        self.cell(85, 4, f"{company.name} · {company.street} · {company.postal_code} {company.city}", new_y=YPos.NEXT)
        self._font(10.5)
        foreign_country = (
            Locale.parse(self.locale).territories[recipient.country] if recipient.country != company.country else ""
        )
        for text in (recipient.name, recipient.street, f"{recipient.postal_code} {recipient.city}", foreign_country):
            self.set_x(_LEFT)
            self.cell(85, 5.2, text or "", new_y=YPos.NEXT)

    def _facts(self) -> None:
        """Draw the box of numbers and dates on the right."""
        document, labels = self.document, self.labels
        names = {
            "po_reference": labels.order,
            "delivery_note_reference": labels.delivery_note,
            "sales_order_reference": labels.sales_order,
            "invoice_reference": labels.credited_invoice,
        }
        facts = [
            (labels.number, document.number),
            (labels.date, self._day(document.issue_date)),
            (labels.due, self._day(document.due_date)),
            (labels.delivered, self._day(document.delivery_date)),
            *((label, document.references.get(name, "")) for name, label in names.items()),
            (labels.our_contact, document.buyer_reference or ""),
            (labels.customer_vat, document.buyer.vat_id if document.seller.name == self.company.name else ""),
        ]
        for row, (label, value) in enumerate((label, value) for label, value in facts if value):
            self.set_xy(122, 45 + row * 5)
            self._font(8.5, "", _GRAY)
            self.cell(30, 5, label)
            self._font(9, "B" if row == 0 else "")
            self.cell(38, 5, value, align="R")

    def _title(self) -> None:
        self.set_xy(_LEFT, 98)
        self._font(15, "B", self.company.color)
        self.cell(_WIDTH, 9, self.heading, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self._font(9)
        self.cell(_WIDTH, 6, self.document.note or "", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self.ln(2)

    def _table(self) -> None:
        self._table_head()
        carries = self.layout.carries_subtotals and self._is_priced
        for index, line in enumerate(self.document.lines):
            cells = self._cells(line)
            self._font(8.5)
            description_lines = self.multi_cell(
                _COLUMN_WIDTHS[2], 5, cells[2], dry_run=True, output=MethodReturnValue.LINES
            )
            height = 5.0 * len(cast("list[str]", description_lines))
            if self.will_page_break(height + 3 + _CARRIED_HEIGHT * carries):
                self._next_page(carries=carries)
            top = self.get_y()
            if index % 2:
                self.set_fill_color(244, 246, 248)
                self.rect(_LEFT, top, _WIDTH, height + 2, style="F")
            self._font(8.5)
            x = float(_LEFT)
            for text, width, align in zip(cells, _COLUMN_WIDTHS, _COLUMN_ALIGNS, strict=False):
                self.set_xy(x, top + 1)
                self.multi_cell(width, 5, text, align=align)
                x += width
            self.set_xy(_LEFT, top + height + 2)
            self.carried += line.net_amount or 0

    def _next_page(self, *, carries: bool) -> None:
        """Continue the table on the next page.

        If `carries` is true, a subtotal ends this page and starts the next.
        """
        if carries:
            self._subtotal_row()
        self.add_page()
        self._table_head()
        if carries:
            self._subtotal_row()

    def _subtotal_row(self) -> None:
        self._font(8.5, "I")
        self.set_x(_LEFT)
        self.cell(_WIDTH - _COLUMN_WIDTHS[-1], _CARRIED_HEIGHT, self.labels.carried)
        text = self._number(self.carried)
        self.cell(_COLUMN_WIDTHS[-1], _CARRIED_HEIGHT, text, align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)

    def _table_head(self) -> None:
        self.set_fill_color(*self.company.color)
        self._font(8.5, "B", (255, 255, 255))
        heads = self.labels.columns if self._is_priced else self.labels.columns[:_UNPRICED_COLUMNS]
        for text, width, align in zip(heads, _COLUMN_WIDTHS, _COLUMN_ALIGNS, strict=False):
            self.cell(width, 7, text, align=align, fill=True)
        self.ln(7)

    def _cells(self, line: Line) -> tuple[str, ...]:
        unit = _UNIT_NAMES.get(line.unit, line.unit)
        quantity = f"{self._number(line.quantity)} {unit}".strip()
        cells = (line.position, line.article_number or "", line.description, quantity)
        if not self._is_priced:
            return cells
        price = self._number(line.unit_price or Decimal(0))
        if line.price_basis_quantity is not None:
            price = f"{price} {self.labels.per.format(basis=self._number(line.price_basis_quantity))}"
        rate = "" if line.tax is None else f"{self._number(line.tax.rate)} %"
        return (*cells, price, rate, self._number(line.net_amount or Decimal(0)))

    def _totals(self) -> None:
        labels, totals = self.labels, self.document.totals
        if self.will_page_break(12 + 6 * len(totals.groups)):
            self.add_page()
        self.set_draw_color(*_GRAY)
        self.line(_LEFT + 80, self.get_y() + 2, _LEFT + _WIDTH, self.get_y() + 2)
        self.ln(3.5)
        rows = [(labels.net, totals.net)]
        for group in totals.groups:
            label = labels.tax.format(rate=self._number(group.tax.rate), base=self._number(group.base))
            rows.append((label, group.amount))
        for label, amount in rows:
            self._sum(label, amount, 9, "")
        self._sum(labels.total, totals.gross, 11, "B")
        self.line(_LEFT + 80, self.get_y() + 1, _LEFT + _WIDTH, self.get_y() + 1)

    def _sum(self, label: str, amount: Decimal, size: float, style: str) -> None:
        self._font(size, style)
        self.set_x(_LEFT + 80)
        self.cell(58, 6, label)
        money = format_currency(amount, self.document.currency or "", locale=self.locale)
        self.cell(32, 6, _printable(money), align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)

    def _closing(self) -> None:
        labels, document = self.labels, self.document
        self.ln(6)
        self._font(9)
        groups = document.totals.groups if self._is_priced else ()
        exempt_categories = {group.tax.category for group in groups} & {"K", "G"}
        for category in sorted(exempt_categories):
            self.multi_cell(
                _WIDTH,
                5,
                labels.export if category == "G" else labels.intra_community,
                new_x=XPos.LMARGIN,
                new_y=YPos.NEXT,
            )
        if document.kind is Kind.INVOICE:
            self.multi_cell(
                _WIDTH, 5, labels.pay.format(due=self._day(document.due_date)), new_x=XPos.LMARGIN, new_y=YPos.NEXT
            )
            self.multi_cell(_WIDTH, 5, f"{labels.bank}: {self.company.bank}, IBAN {_format_iban(self.company.iban)}")

    def _day(self, day: date | None) -> str:
        return (
            ""
            if day is None
            else _printable(format_date(day, "dd.MM.yyyy" if self.company.language == "de" else "dd/MM/yyyy"))
        )

    def _number(self, value: Decimal) -> str:
        decimals = max(0, -int(value.as_tuple().exponent))
        pattern = "#,##0." + "0" * decimals if decimals else "#,##0"
        return _printable(format_decimal(plain(value), format=pattern, locale=self.locale))


def _format_iban(iban: str) -> str:
    return " ".join(iban[start : start + 4] for start in range(0, len(iban), 4))


def _printable(text: str) -> str:
    """Replace narrow no-break spaces with no-break spaces.

    French amounts contain them, and Windows-1252 lacks them.
    """
    return text.replace("\u202f", "\u00a0")
