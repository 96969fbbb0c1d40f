"""Draw documents for tests, together with their expected data.

Bars separate the cells of a row: `"Menge|Preis"`. Column positions are in millimeters from the left edge: `"20 120r"`.
A position with `r` is the right edge of right-aligned text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fpdf import FPDF


@dataclass(frozen=True)
class DrawnDocument:
    """A drawn document: its PDF content, type and expected structured data."""

    content: bytes
    type: str
    expected: dict[str, Any]


class Sheet:
    """Pages to draw on.

    Positions are in millimeters from the top left corner; `y` is the baseline.
    """

    def __init__(self, font: str = "helvetica") -> None:
        self._pdf = FPDF(unit="mm", format="A4")
        self._pdf.core_fonts_encoding = "windows-1252"
        self._pdf.set_auto_page_break(False)
        self._font = font
        self.add_page()

    def add_page(self) -> None:
        """Start a new page."""
        self._pdf.add_page()

    def at(self, x: float, y: float, text: str, size: float = 9, *, bold: bool = False, right: bool = False) -> None:
        """Write text that starts at `x`, or ends at `x` if `right` is True."""
        self._pdf.set_font(self._font, "B" if bold else "", size)
        width = self._pdf.get_string_width(text)
        self._pdf.text(x - width if right else x, y, text)

    def rows(
        self, x: float, y: float, *texts: str, size: float = 9, pitch: float = 4.4, bold: bool = False,
        right: bool = False,
    ) -> float:  # fmt: skip
        """Write texts one below the other. Return the `y` of the next row."""
        for text in texts:
            self.at(x, y, text, size, bold=bold, right=right)
            y += pitch
        return y

    def table(
        self, y: float, columns: str, *rows: str, heading: str | None = None, size: float = 9, pitch: float = 5,
        bold: bool = False,
    ) -> float:  # fmt: skip
        """Write rows of cells below an optional bold heading.

        Return the `y` of the next row.
        """
        if heading is not None:
            y = self.table(y, columns, heading, size=size, bold=True) + 2
        for row in rows:
            for column, text in zip(columns.split(), row.split("|"), strict=True):
                if text:
                    self.at(float(column.rstrip("r")), y, text, size, bold=bold, right=column.endswith("r"))
            y += pitch
        return y

    def rule(self, y: float, left: float = 20, right: float = 190) -> None:
        """Draw a horizontal line."""
        self._pdf.line(left, y, right, y)

    def finish(self, kind: str, data: Mapping[str, Any]) -> DrawnDocument:
        """Return the drawn document with its type and expected data."""
        return DrawnDocument(bytes(self._pdf.output()), kind, dict(data))


def line(text: str, names: str) -> dict[str, str]:
    """Return a line item from field names and values.

    Bars separate values; `-` omits a field.
    """
    values = (value.strip() for value in text.split("|"))
    return {name: value for name, value in zip(names.split(), values, strict=True) if value != "-"}


def lines(names: str, *texts: str) -> list[dict[str, str]]:
    """Return line items with the same fields, one per text."""
    return [line(text, names) for text in texts]


def party(values: str, **fields: str) -> dict[str, str]:
    """Return a party with additional `fields`.

    `values` are the name, street, postal code and city, separated by bars.
    """
    return line(values, "name street postal_code city") | fields


def totals(values: str) -> dict[str, str]:
    """Return totals from `values`: currency, net, tax and gross, separated by spaces."""
    return dict(zip(("currency", "total_net", "total_tax", "total_gross"), values.split(), strict=True))
