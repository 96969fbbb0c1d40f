"""Generates document numbers in the style of each company's country."""

from collections.abc import Mapping
from random import Random

from tools.sample_generator.model import Company, Kind

_PATTERNS: Mapping[str, Mapping[Kind, tuple[str, ...]]] = {
    "de": {
        Kind.PURCHASE_ORDER: ("45000{n:05d}",),
        Kind.ORDER_CONFIRMATION: ("AB-{n:06d}",),
        Kind.DELIVERY_NOTE: ("LS-{n:06d}", "8{n:07d}"),
        Kind.GOODS_RECEIPT: ("WE{n:07d}",),
        Kind.INVOICE: ("RE-{year}-{n:05d}", "{year}{n:05d}", "R{n:06d}"),
        Kind.CREDIT_NOTE: ("GS-{n:05d}",),
    },
    "fr": {
        Kind.PURCHASE_ORDER: ("BC{year}-{n:05d}",),
        Kind.ORDER_CONFIRMATION: ("ARC{n:06d}",),
        Kind.DELIVERY_NOTE: ("BL{n:06d}",),
        Kind.GOODS_RECEIPT: ("BR-{n:06d}",),
        Kind.INVOICE: ("F{year}/{n:04d}", "FA-{n:06d}"),
        Kind.CREDIT_NOTE: ("AV{n:05d}",),
    },
    "it": {
        Kind.PURCHASE_ORDER: ("ODA {n}/{year}",),
        Kind.ORDER_CONFIRMATION: ("CO {n}/{year}",),
        Kind.DELIVERY_NOTE: ("DDT {n}/{year}",),
        Kind.GOODS_RECEIPT: ("BEM {n}/{year}",),
        Kind.INVOICE: ("FT {n}/{year}", "{n:05d}/{year}"),
        Kind.CREDIT_NOTE: ("NC {n}/{year}",),
    },
    "nl": {
        Kind.PURCHASE_ORDER: ("IO-{n:06d}",),
        Kind.ORDER_CONFIRMATION: ("OB-{n:05d}",),
        Kind.DELIVERY_NOTE: ("PB-{n:05d}",),
        Kind.GOODS_RECEIPT: ("OG{n:06d}",),
        Kind.INVOICE: ("{year}.{n:05d}", "F-{n:06d}"),
        Kind.CREDIT_NOTE: ("C-{n:05d}",),
    },
    "en": {
        Kind.PURCHASE_ORDER: ("PO{n:07d}",),
        Kind.ORDER_CONFIRMATION: ("SO{n:06d}",),
        Kind.DELIVERY_NOTE: ("DN{n:06d}",),
        Kind.GOODS_RECEIPT: ("GRN{n:06d}",),
        Kind.INVOICE: ("INV-{n:06d}", "SI{n:07d}"),
        Kind.CREDIT_NOTE: ("CN-{n:05d}",),
    },
}


class Numbers:
    """Document numbers that increase within each company's series.

    They are unique within the sample. Numbers are considered equal if they differ only in punctuation, case, or letters
    that look like digits.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._series: dict[tuple[str, Kind], tuple[str, int]] = {}
        self._taken: set[str] = set()

    def next(self, kind: Kind, company: Company, year: int) -> str:
        """Return the next number of this company's series for a document type."""
        key = (company.vat_id, kind)
        if key not in self._series:
            self._series[key] = (self._rng.choice(_PATTERNS[company.language][kind]), self._rng.randint(103, 6900))
        while True:
            pattern, last = self._series[key]
            current = last + self._rng.randint(1, 7)
            self._series[key] = (pattern, current)
            number = pattern.format(n=current, year=year)
            if self.reserve(number):
                return number

    def reserve(self, number: str) -> bool:
        """Reserve a number. Returns False if a similar one is already reserved."""
        normalized = "".join(character for character in number.upper() if character.isalnum()).translate(
            str.maketrans("OIL", "011")
        )
        if normalized in self._taken:
            return False
        self._taken.add(normalized)
        return True
