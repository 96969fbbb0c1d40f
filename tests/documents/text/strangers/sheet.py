"""Sheets of paper to draw on, and the form in which is told what they state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fpdf import FPDF


@dataclass(frozen=True)
class Stranger:
    """A paper: its pages as a PDF, its type, and what it states in the form of structured data."""

    name: str
    content: bytes
    type: str
    states: dict[str, Any]


class Sheet:
    """Pages to write on: places are millimetres from the top left corner, text stands on the line that ends at `y`."""

    def __init__(self, font: str = "helvetica") -> None:
        self._pdf = FPDF(unit="mm", format="A4")
        self._pdf.core_fonts_encoding = "windows-1252"
        self._pdf.set_auto_page_break(False)
        self._font = font
        self.turn()

    def turn(self) -> None:
        """Begin a new page."""
        self._pdf.add_page()

    def at(self, x: float, y: float, text: str, size: float = 9, *, bold: bool = False, right: bool = False) -> None:
        """Write a text, from `x` on or up to `x`."""
        self._pdf.set_font(self._font, "B" if bold else "", size)
        width = self._pdf.get_string_width(text)
        self._pdf.text(x - width if right else x, y, text)

    def rows(self, x: float, y: float, *texts: str, size: float = 9, pitch: float = 4.4) -> float:
        """Write texts below one another; returns the place of the next."""
        for text in texts:
            self.at(x, y, text, size)
            y += pitch
        return y

    def table(
        self, y: float, columns: Sequence[tuple[float, str]], *rows: Sequence[str], size: float = 9, pitch: float = 5,
        bold: bool = False,
    ) -> float:  # fmt: skip
        """Write rows of cells; a column is its place and `l` or `r`. Returns the place of the next row."""
        for row in rows:
            for (x, align), text in zip(columns, row, strict=True):
                if text:
                    self.at(x, y, text, size, bold=bold, right=align == "r")
            y += pitch
        return y

    def done(self) -> bytes:
        """The file."""
        return bytes(self._pdf.output())


def line(text: str, names: str) -> dict[str, str]:
    """A line of goods from values with bars between, `-` for none."""
    values = (value.strip() for value in text.split("|"))
    return {name: value for name, value in zip(names.split(), values, strict=True) if value != "-"}


def lines(names: str, *texts: str) -> list[dict[str, str]]:
    return [line(text, names) for text in texts]


def party(name: str, street: str, code: str, city: str, **more: str) -> dict[str, str]:
    return {"name": name, "street": street, "postal_code": code, "city": city, **more}
