"""Labels for documents and file names by language, read from `labels.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.sample_generator.model import Kind


@dataclass(frozen=True)
class Labels:
    """Labels in one language. `titles` are used as headings and in file names."""

    titles: Mapping[Kind, str]
    number: str
    date: str
    due: str
    delivered: str
    our_contact: str
    customer_vat: str
    order: str
    delivery_note: str
    sales_order: str
    credited_invoice: str
    columns: tuple[str, str, str, str, str, str, str]
    net: str
    tax: str
    total: str
    per: str
    pay: str
    bank: str
    vat_id: str
    tax_number: str
    intra_community: str
    export: str
    freight: str
    cost_center: str
    thanks: str
    credit_reason: str
    copy: str
    page: str
    page_of: str
    carried: str
    enclosed: str
    separator: str


def _labels(section: Mapping[str, Any]) -> Labels:
    titles = dict(zip(Kind, section["titles"], strict=True))
    return Labels(**{**section, "titles": titles, "columns": tuple(section["columns"])})


LABELS: Mapping[str, Labels] = {
    language: _labels(section)
    for language, section in tomllib.loads(Path(__file__).with_name("labels.toml").read_text("utf-8")).items()
}
