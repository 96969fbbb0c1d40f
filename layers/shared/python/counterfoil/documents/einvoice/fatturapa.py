"""Reads the Italian FatturaPA, versions 1.0 to 1.2.

Source: technical specifications of the Agenzia delle Entrate.
"""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from lxml import etree

from counterfoil.documents.einvoice.xml import (
    EinvoiceResult,
    all_texts,
    drop_empty,
    iban,
    negated,
    reference,
    text,
    use_local_names,
)
from counterfoil.documents.structured import ROLES, DocumentType

_CREDIT_NOTE_CODES = frozenset({"TD04", "TD08"})
_NO_ENDPOINT = "0000000"  # the recipient has no code: the invoice was sent by certified mail or to the tax portal
_SELLERS_ARTICLE = "AswArtFor"
_BUYERS_ARTICLE = "AswArtCli"
_DOCUMENT = "DatiGenerali/DatiGeneraliDocumento"
_LINE = "DatiBeniServizi/DettaglioLinee"


def count_invoices(root: etree._Element) -> int:
    """Return the number of invoices in a file.

    A FatturaPA may contain a batch of invoices for one buyer.
    """
    return len(root.findall("{*}FatturaElettronicaBody"))


def read(root: etree._Element) -> EinvoiceResult:
    """Read the first invoice or credit note of a file.

    The tree is modified: names lose their namespaces.
    """
    use_local_names(root)
    header, body = root.find("FatturaElettronicaHeader"), root.find("FatturaElettronicaBody")
    is_credit = text(body, f"{_DOCUMENT}/TipoDocumento") in _CREDIT_NOTE_CODES
    document_type = DocumentType.CREDIT_NOTE if is_credit else DocumentType.INVOICE
    roles = ROLES[document_type]
    lines = [] if body is None else list(_lines(body))
    seller = _party(header, "CedentePrestatore")
    if seller and not is_credit:
        seller |= drop_empty(iban=iban(text(body, "DatiPagamento/DettaglioPagamento/IBAN")))
    buyer = _party(header, "CessionarioCommittente")
    if buyer:
        endpoint = text(header, "DatiTrasmissione/CodiceDestinatario")
        certified_mail = text(header, "DatiTrasmissione/PECDestinatario")
        buyer |= drop_empty(endpoint_id=certified_mail if endpoint == _NO_ENDPOINT else endpoint)
    fields = drop_empty(
        **{
            roles.number: text(body, f"{_DOCUMENT}/Numero"),
            roles.date: text(body, f"{_DOCUMENT}/Data"),
            roles.seller: seller,
            roles.buyer: buyer,
        },
        **_references(body),
        currency=text(body, f"{_DOCUMENT}/Divisa"),
        total_net=_sum(body, "ImponibileImporto"),
        total_tax=_sum(body, "Imposta"),
        total_gross=text(body, f"{_DOCUMENT}/ImportoTotaleDocumento"),
        payment_due_date=text(body, "DatiPagamento/DettaglioPagamento/DataScadenzaPagamento"),
        line_items=[*lines, *_discounts_and_surcharges(body)],
    )
    return EinvoiceResult(document_type, fields, lacks_required_lines=not lines)


def _party(header: etree._Element | None, role: str) -> dict[str, object] | None:
    party = None if header is None else header.find(role)
    identity = "DatiAnagrafici/Anagrafica"
    given_and_family_name = (f"{identity}/Nome", f"{identity}/Cognome")  # codespell:ignore nome
    name = text(party, f"{identity}/Denominazione") or " ".join(all_texts(party, *given_and_family_name))
    if party is None or not name:
        return None
    vat = "DatiAnagrafici/IdFiscaleIVA"
    return drop_empty(
        name=name,
        vat_id="".join(all_texts(party, f"{vat}/IdPaese") + all_texts(party, f"{vat}/IdCodice")),
        tax_number=text(party, "DatiAnagrafici/CodiceFiscale"),
        email=text(party, "Contatti/Email"),
        street=" ".join(all_texts(party, "Sede/Indirizzo") + all_texts(party, "Sede/NumeroCivico")),
        city=text(party, "Sede/Comune"),
        postal_code=text(party, "Sede/CAP"),
        country=text(party, "Sede/Nazione"),
    )


def _references(body: etree._Element | None) -> dict[str, object]:
    invoices = reference(all_texts(body, "DatiGenerali/DatiFattureCollegate/IdDocumento"))
    return {
        "po_reference": reference(all_texts(body, "DatiGenerali/DatiOrdineAcquisto/IdDocumento")),
        "contract_reference": reference(all_texts(body, "DatiGenerali/DatiContratto/IdDocumento")),
        "delivery_note_reference": reference(all_texts(body, "DatiGenerali/DatiDDT/NumeroDDT")),
        "preceding_invoice_reference": invoices,
        "invoice_reference": invoices,
    }


def _sum(body: etree._Element | None, amount: str) -> str | None:
    """Return the sum of an amount over all tax rates.

    The format states net and tax only per rate.
    """
    entries = [] if body is None else body.findall(f"DatiBeniServizi/DatiRiepilogo/{amount}")
    amounts = [(entry.text or "").strip() for entry in entries]
    if len(amounts) <= 1:
        return next(iter(amounts), None)
    try:
        return format(sum(map(Decimal, amounts), Decimal(0)), "f")
    except InvalidOperation:
        return " + ".join(amounts)  # not a number: validation rejects it and names the total


def _lines(body: etree._Element) -> Iterator[dict[str, object]]:
    orders = [
        (all_texts(order, "RiferimentoNumeroLinea"), text(order, "IdDocumento"), text(order, "NumItem"))
        for order in body.iterfind("DatiGenerali/DatiOrdineAcquisto")
    ]
    for line in body.iterfind(_LINE):
        position = text(line, "NumeroLinea")
        order, order_line = next(((number, item) for lines, number, item in orders if position in lines), (None, None))
        articles = {text(code, "CodiceTipo"): text(code, "CodiceValore") for code in line.iterfind("CodiceArticolo")}
        yield drop_empty(
            position=position,
            article_number=articles.get(_SELLERS_ARTICLE),
            buyer_article_number=articles.get(_BUYERS_ARTICLE),
            description=text(line, "Descrizione"),
            quantity=text(line, "Quantita"),
            unit=text(line, "UnitaMisura"),
            unit_price=text(line, "PrezzoUnitario"),
            net_amount=text(line, "PrezzoTotale"),
            tax_rate=text(line, "AliquotaIVA"),
            po_reference=order,
            po_line=order_line,
        )


def _discounts_and_surcharges(body: etree._Element | None) -> Iterator[dict[str, object]]:
    """Yield document-level discounts, surcharges and contributions as line items.

    The discounts have the type SC, and the surcharges MG. The contributions are for pension funds.
    """
    if body is None:
        return
    for entry in body.iterfind(f"{_DOCUMENT}/ScontoMaggiorazione"):
        amount = text(entry, "Importo")
        is_charge = text(entry, "Tipo") == "MG"
        if amount:
            yield {
                "description": "Charge" if is_charge else "Allowance",
                "net_amount": amount if is_charge else negated(amount),
            }
    for fund in body.iterfind(f"{_DOCUMENT}/DatiCassaPrevidenziale"):
        amount = text(fund, "ImportoContributoCassa")
        if amount:
            yield {"description": "Charge", "net_amount": amount}
