"""Structured data of documents: one model per type, with fixed field names.

Money and quantities are decimal strings ("1190.00"), dates ISO 8601 (YYYY-MM-DD), currencies ISO 4217, countries ISO
3166 alpha-2, units UN/ECE Rec 20 codes where known. Fields that the document does not state are absent. Unknown fields
are ignored.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from counterfoil.errors import InvalidDocumentError
from counterfoil.validation import ValidationProblem, validate

if TYPE_CHECKING:
    from counterfoil.documents.splitting import Split

_DECIMAL = re.compile(r"[+-]?(\d{1,30}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(T[0-9:.]+)?(Z|[+-]\d{2}:\d{2})?", re.ASCII)
_NOT_DECIMAL: Final = "decimal"
_NOT_DATE: Final = "date"


class DocumentType(StrEnum):
    """Type of a document. `OTHER` documents are stored and not matched."""

    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    PURCHASE_ORDER = "purchase_order"
    ORDER_CONFIRMATION = "order_confirmation"
    DELIVERY_NOTE = "delivery_note"
    GOODS_RECEIPT = "goods_receipt"
    CONTRACT = "contract"
    OTHER = "other"


def _decimal_string(value: str) -> str:
    """Format a decimal without plus sign, exponent or leading zeros.

    Preserves the stated precision.
    """
    if not _DECIMAL.fullmatch(value):
        raise PydanticCustomError(_NOT_DECIMAL, "is not a decimal number")
    number = Decimal(value)
    return format(number or number.copy_abs(), "f")


def _iso_date(value: str) -> str:
    """Return the day of an XML Schema date or date-time, ignoring the time zone."""
    match = _DATE.fullmatch(value)
    try:
        if match:
            return dt.date.fromisoformat(match[1]).isoformat()
    except ValueError:
        pass
    raise PydanticCustomError(_NOT_DATE, "is not a date")


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
DecimalString = Annotated[Text, AfterValidator(_decimal_string)]
IsoDate = Annotated[Text, AfterValidator(_iso_date)]
Reference = Text | tuple[Text, ...]


class Record(BaseModel):
    """Base class of all structured data.

    Unknown fields are ignored; empty fields count as absent.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        return {name: value for name, value in fields.items() if not (isinstance(value, str) and not value.strip())}

    def data(self) -> dict[str, Any]:
        """Return the stated fields by their fixed names, as JSON types without nulls."""
        return self.model_dump(mode="json", exclude_none=True)


class Party(Record):
    """A company or person in a document."""

    name: Text
    vat_id: Text | None = None
    tax_number: Text | None = None
    registration_id: Text | None = None
    endpoint_id: Text | None = None
    iban: Text | None = None
    email: Text | None = None
    street: Text | None = None
    city: Text | None = None
    postal_code: Text | None = None
    country: Text | None = None


_IDENTIFIERS = ("name", "vat_id", "tax_number", "registration_id")


def is_identified(party: Any) -> bool:
    """Return whether a party has a name, VAT id, tax number or registration id.

    `party` is a value in structured data. The function is pure.
    """
    return isinstance(party, Mapping) and any(party.get(name) for name in _IDENTIFIERS)


class LineItem(Record):
    """A line item.

    `unit_price` applies to `price_basis_quantity` units, or to 1 unit if that is absent.
    """

    position: Text | None = None
    article_number: Text | None = None
    buyer_article_number: Text | None = None
    description: Text | None = None
    quantity: DecimalString | None = None
    rejected_quantity: DecimalString | None = None
    unit: Text | None = None
    price_basis_quantity: DecimalString | None = None
    unit_price: DecimalString | None = None
    net_amount: DecimalString | None = None
    tax_rate: DecimalString | None = None
    po_reference: Text | None = None
    po_line: Text | None = None


class _Totals(Record):
    """Totals and terms of documents with prices."""

    currency: Text | None = None
    total_net: DecimalString | None = None
    total_tax: DecimalString | None = None
    total_gross: DecimalString | None = None
    payment_due_date: IsoDate | None = None
    line_items: tuple[LineItem, ...] | None = None


class Invoice(_Totals):
    """An invoice, including corrected and self-billed invoices."""

    invoice_number: Text
    invoice_date: IsoDate | None = None
    issuer: Party | None = None
    recipient: Party | None = None
    po_reference: Reference | None = None
    delivery_note_reference: Reference | None = None
    contract_reference: Reference | None = None
    sales_order_reference: Reference | None = None
    preceding_invoice_reference: Reference | None = None


class CreditNote(_Totals):
    """A credit note."""

    credit_note_number: Text
    credit_note_date: IsoDate | None = None
    issuer: Party | None = None
    recipient: Party | None = None
    invoice_reference: Reference | None = None
    po_reference: Reference | None = None


class PurchaseOrder(_Totals):
    """A purchase order, or an order change under the same number."""

    po_number: Text
    order_date: IsoDate | None = None
    supplier: Party | None = None
    buyer: Party | None = None
    quotation_reference: Reference | None = None
    contract_reference: Reference | None = None


class OrderConfirmation(_Totals):
    """The supplier's confirmation of a purchase order."""

    confirmation_number: Text
    confirmation_date: IsoDate | None = None
    supplier: Party | None = None
    buyer: Party | None = None
    po_reference: Reference | None = None


class DeliveryNote(Record):
    """Goods that the supplier sent. No prices."""

    delivery_note_number: Text
    delivery_date: IsoDate | None = None
    supplier: Party | None = None
    buyer: Party | None = None
    po_reference: Reference | None = None
    line_items: tuple[LineItem, ...] | None = None


class GoodsReceipt(Record):
    """Goods that the buyer received.

    No prices; line items may state a rejected quantity.
    """

    receipt_number: Text
    receipt_date: IsoDate | None = None
    supplier: Party | None = None
    buyer: Party | None = None
    po_reference: Reference | None = None
    delivery_note_reference: Reference | None = None
    line_items: tuple[LineItem, ...] | None = None


class Contract(_Totals):
    """A contract or framework agreement."""

    contract_number: Text
    contract_date: IsoDate | None = None
    supplier: Party | None = None
    buyer: Party | None = None


class OtherDocument(Record):
    """A document of another type. `subject` names the type, if known."""

    subject: Text | None = None
    date: IsoDate | None = None
    issuer: Party | None = None
    recipient: Party | None = None


@dataclass(frozen=True)
class FieldRoles:
    """Names of the fields that differ by document type."""

    number: str
    date: str
    seller: str
    buyer: str


ROLES: Mapping[DocumentType, FieldRoles] = MappingProxyType(
    {
        DocumentType.INVOICE: FieldRoles("invoice_number", "invoice_date", "issuer", "recipient"),
        DocumentType.CREDIT_NOTE: FieldRoles("credit_note_number", "credit_note_date", "issuer", "recipient"),
        DocumentType.PURCHASE_ORDER: FieldRoles("po_number", "order_date", "supplier", "buyer"),
        DocumentType.ORDER_CONFIRMATION: FieldRoles("confirmation_number", "confirmation_date", "supplier", "buyer"),
        DocumentType.DELIVERY_NOTE: FieldRoles("delivery_note_number", "delivery_date", "supplier", "buyer"),
        DocumentType.GOODS_RECEIPT: FieldRoles("receipt_number", "receipt_date", "supplier", "buyer"),
        DocumentType.CONTRACT: FieldRoles("contract_number", "contract_date", "supplier", "buyer"),
    }
)

MODELS: Mapping[DocumentType, type[Record]] = MappingProxyType(
    {
        DocumentType.INVOICE: Invoice,
        DocumentType.CREDIT_NOTE: CreditNote,
        DocumentType.PURCHASE_ORDER: PurchaseOrder,
        DocumentType.ORDER_CONFIRMATION: OrderConfirmation,
        DocumentType.DELIVERY_NOTE: DeliveryNote,
        DocumentType.GOODS_RECEIPT: GoodsReceipt,
        DocumentType.CONTRACT: Contract,
        DocumentType.OTHER: OtherDocument,
    }
)


Method = Literal["xml", "embedded-xml", "text", "ocr", "model", "none"]
"""Source of a document's data: an XML file, XML embedded in a PDF, rules on a text layer, rules on OCR, a language
model, or nothing."""


@dataclass(frozen=True)
class ExtractionResult:
    """Structured data of one file, from XML or from pages."""

    type: DocumentType | None
    """None if unknown."""
    method: Method
    structured_data: dict[str, Any] | None
    """Fields of the document type. None if the file is stored without data; `reason` explains why."""
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    """Sentences about missing, uncertain, contradictory and unreadable fields."""
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Source, confidence and page of each field that was read from pages, by path."""
    unread: frozenset[int] = frozenset()
    """Numbers of pages without OCR results, counted from 1."""
    split: "Split | None" = None
    """Parts of a PDF with several documents, or a split that must not be applied because of `reason`."""


def to_structured_data(document_type: DocumentType, fields: Mapping[str, Any]) -> tuple[Record, tuple[str, ...]]:
    """Validate and normalize fields.

    Return the record, and warnings about omitted fields.

    Fields that the type does not have are ignored. An invalid tax rate of a line item is omitted with a warning. Raises
    `InvalidDocumentError` for any other missing or invalid value. The message names the first such field, but never
    quotes its content.
    """
    lines, remarks = _drop_unreadable_rates(fields.get("line_items") or [])
    record = validate(
        MODELS[document_type],
        {**fields, "line_items": lines or None},
        partial(_invalid, document_type),
    )
    return record, remarks


def _drop_unreadable_rates(
    lines: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """Remove invalid tax rates, on which no other value depends."""
    cleaned, remarks = list(lines), []
    for index, line in enumerate(lines):
        rate = line.get("tax_rate")
        if isinstance(rate, str) and not _DECIMAL.fullmatch(rate.strip()):
            cleaned[index] = {name: value for name, value in line.items() if name != "tax_rate"}
            remarks.append(f"line_items.{index}.tax_rate is not a decimal number and was omitted.")
    return cleaned, tuple(remarks)


def _invalid(document_type: DocumentType, problem: ValidationProblem) -> InvalidDocumentError:
    name, place = document_type.value.replace("_", " "), problem.location
    if problem.type == "missing" and len(place) == 1:
        message = f"The {name} does not state its number ({place[0]}); ask its sender for a complete one."
        return InvalidDocumentError(message, code=f"missing_{place[0]}")
    path = ".".join(map(str, place))
    reason = problem.message if problem.type in {_NOT_DECIMAL, _NOT_DATE} else "is missing or unreadable"
    message = f"In the {name}, {path} {reason}; ask its sender for a corrected one."
    fields = (part for part in place if isinstance(part, str))
    return InvalidDocumentError(message, code="_".join(("invalid", document_type, *fields)))
