"""Invented companies with valid VAT ids, register numbers and IBANs.

python-stdnum computes the check digits. For numbers that it can only validate, numbers are drawn until one is valid.
Mail addresses end in `.example` (RFC 2606). Telephone numbers use a range reserved for fiction if the country has one.
`countries.toml` contains the words for names and addresses.
"""

import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from stdnum import iban, luhn
from stdnum.ch import uid
from stdnum.gb import vat as gb_vat
from stdnum.iso7064 import mod_11_10
from stdnum.it import iva
from stdnum.nl import bsn

from tools.sample_generator.catalog import ProductLine
from tools.sample_generator.model import Company

EU_COUNTRIES = frozenset({"DE", "FR", "IT", "NL"})
LANGUAGES = {"DE": "de", "FR": "fr", "IT": "it", "NL": "nl", "GB": "en", "CH": "de"}
CURRENCIES = {"DE": "EUR", "FR": "EUR", "IT": "EUR", "NL": "EUR", "GB": "GBP", "CH": "CHF"}
_COLORS = ((23, 78, 121), (122, 31, 45), (28, 100, 72), (92, 61, 130), (165, 82, 20), (48, 63, 84), (0, 105, 120))


@dataclass(frozen=True)
class Country:
    """Name parts and addresses of a country's companies.

    A place is (postal code, city).
    """

    stems: tuple[str, ...]
    streets: tuple[str, ...]
    places: tuple[tuple[str, str], ...]
    buyer_name: str
    register: str
    phone: str
    bank: str
    house_number_first: bool = False


def _country(section: Mapping[str, Any]) -> Country:
    stems, streets = tuple(section["stems"]), tuple(section["streets"])
    return Country(**{**section, "stems": stems, "streets": streets, "places": tuple(map(tuple, section["places"]))})


_COUNTRIES = {
    code: _country(section)
    for code, section in tomllib.loads(Path(__file__).with_name("countries.toml").read_text("utf-8")).items()
}


class CompanyRegistry:
    """Creates companies with distinct name stems, addresses and numbers."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._stems = {code: rng.sample(country.stems, len(country.stems)) for code, country in _COUNTRIES.items()}
        self._colors = rng.sample(_COLORS, len(_COLORS))
        self._founded = 0

    def supplier(self, product_line: ProductLine) -> Company:
        """Create a supplier of this product line."""
        stem = self._stems[product_line.country].pop()
        return self._create(
            product_line.country,
            stem,
            f"{product_line.prefix} {stem} {product_line.suffix}".strip(),
            product_line.claim,
        )

    def buyer(self, country: str) -> Company:
        """Create a manufacturer in this country, which is a tenant of the sample."""
        stem = self._stems[country].pop()
        return self._create(country, stem, _COUNTRIES[country].buyer_name.format(stem=stem), "")

    def _create(self, code: str, stem: str, name: str, claim: str) -> Company:
        rng, country = self._rng, _COUNTRIES[code]
        self._founded += 1
        postal_code, city = rng.choice(country.places)
        street, house_number = rng.choice(country.streets), str(rng.randint(1, 148))
        vat_id, registration_id = _NUMBERS[code](rng)
        mailbox = {"de": "rechnung", "fr": "facturation", "it": "fatture", "nl": "facturen", "en": "accounts"}
        return Company(
            name=name,
            short_name=stem,
            street=f"{house_number} {street}" if country.house_number_first else f"{street} {house_number}",
            postal_code=postal_code,
            city=city,
            country=code,
            language=LANGUAGES[code],
            vat_id=vat_id,
            tax_number=f"{rng.randint(10, 99)}/{rng.randint(100, 999)}/{_digits(rng, 5)}" if code == "DE" else None,
            registration_id=registration_id,
            register=country.register,
            email=f"{mailbox[LANGUAGES[code]]}@{slug(stem)}.example",
            phone=country.phone.format(n=rng.randint(10, 99)),
            bank=country.bank.format(city=city),
            iban=_iban(code, rng),
            color=self._colors[self._founded % len(self._colors)],
            claim=claim,
        )


def slug(text: str) -> str:
    """Return a slug of the text, for host names and tenants.

    It consists of lower-case ASCII letters, digits and hyphens.
    """
    digraphs: dict[str, str | int | None] = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}
    german = text.lower().translate(str.maketrans(digraphs))
    plain = unicodedata.normalize("NFKD", german).encode("ascii", "ignore").decode("ascii")
    words = "".join(letter if letter.isalnum() else " " for letter in plain)
    return "-".join(words.split())


def _digits(rng: Random, count: int) -> str:
    return str(rng.randint(1, 9)) + "".join(str(rng.randint(0, 9)) for _ in range(count - 1))


def _german(rng: Random) -> tuple[str, str]:
    body = _digits(rng, 8)
    return f"DE{body}{mod_11_10.calc_check_digit(body)}", f"HRB {_digits(rng, 5)}"


def _french(rng: Random) -> tuple[str, str]:
    body = _digits(rng, 8)
    siren = body + luhn.calc_check_digit(body)
    return f"FR{(12 + 3 * (int(siren) % 97)) % 97:02d}{siren}", siren


def _italian(rng: Random) -> tuple[str, str]:
    body = f"{_digits(rng, 7)}{rng.randint(1, 100):03d}"
    number = iva.validate(body + luhn.calc_check_digit(body))
    return f"IT{number}", f"MI-{_digits(rng, 7)}"


def _dutch(rng: Random) -> tuple[str, str]:
    while True:
        number = _digits(rng, 9)
        if bsn.checksum(number) == 0:
            return f"NL{number}B{rng.randint(1, 3):02d}", _digits(rng, 8)


def _british(rng: Random) -> tuple[str, str]:
    while True:
        number = _digits(rng, 9)
        if gb_vat.checksum(number) == 0:
            return f"GB{number}", f"0{_digits(rng, 7)}"


def _swiss(rng: Random) -> tuple[str, str]:
    while True:
        body = _digits(rng, 8)
        check = uid.calc_check_digit(body)
        if len(check) == 1:
            return f"CHE{body}{check}MWST", f"CHE-{body[:3]}.{body[3:6]}.{body[6:]}{check}"


_NUMBERS: dict[str, Callable[[Random], tuple[str, str]]] = {
    "DE": _german,
    "FR": _french,
    "IT": _italian,
    "NL": _dutch,
    "GB": _british,
    "CH": _swiss,
}


def _iban(country: str, rng: Random) -> str:
    account = _ACCOUNTS[country](rng)
    return f"{country}{iban.calc_check_digits(f'{country}00{account}')}{account}"


def _french_account(rng: Random) -> str:
    """Return a French bank account number (RIB).

    It consists of the bank, the branch, the account, and a key that makes the number divisible by 97.
    """
    bank, branch, account = _digits(rng, 5), _digits(rng, 5), _digits(rng, 11)
    key = 97 - (89 * int(bank) + 15 * int(branch) + 3 * int(account)) % 97
    return f"{bank}{branch}{account}{key:02d}"


def _italian_account(rng: Random) -> str:
    """Return a BBAN.

    Its first letter, the CIN, is a check character for the other characters.
    """
    number = _digits(rng, 22)
    odd = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
    total = sum(odd[int(digit)] if position % 2 == 0 else int(digit) for position, digit in enumerate(number))
    return chr(ord("A") + total % 26) + number


def _dutch_account(rng: Random) -> str:
    """Return an unassigned bank code and ten digits that pass the eleven test."""
    while True:
        number = "0" + _digits(rng, 9)
        if sum((10 - position) * int(digit) for position, digit in enumerate(number)) % 11 == 0:
            return f"VBNK{number}"


_ACCOUNTS: dict[str, Callable[[Random], str]] = {
    "DE": lambda rng: _digits(rng, 18),
    "FR": _french_account,
    "IT": _italian_account,
    "NL": _dutch_account,
    "GB": lambda rng: f"VBNK{_digits(rng, 14)}",
    "CH": lambda rng: _digits(rng, 17),
}
