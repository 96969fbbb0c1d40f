"""Delivery bodies are the same in every attempt.

Their documents can be written as CSV.
"""

import csv
import io
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from counterfoil.webhooks.payload import COLUMNS, SCHEMA_VERSION, OutputJob, render_body, to_csv_rows

ID, SUBJECT = UUID(int=1), UUID(int=2)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def job(payload: Any, **changes: Any) -> OutputJob:
    defaults: dict[str, Any] = {
        "id": ID,
        "revision": 3,
        "subject": "cluster",
        "subject_id": SUBJECT,
        "schema_version": SCHEMA_VERSION,
    }
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return OutputJob(**defaults | {"requested_at": AT, "payload": text} | changes)


def lines(job_: OutputJob) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv_rows(job_).decode(), newline="")))


def test_version_1_bytes_are_unchanged():
    """Retries after a deployment must send the same bytes.

    Any change requires a new schema version.
    """
    assert render_body(job('{"a": 1.10, "b": "ü"}', schema_version=1)) == (
        b'{"schema_version": 1, "id": "00000000-0000-0000-0000-000000000001:3", "event": "cluster", '
        b'"subject_id": "00000000-0000-0000-0000-000000000002", "revision": 3, '
        b'"created_at": "2026-01-02T03:04:05.000000Z", "data": {"a": 1.10, "b": "\xc3\xbc"}}'
    )


def test_time_zone_does_not_change_the_body():
    same_time_elsewhere = AT.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert render_body(job({}, requested_at=same_time_elsewhere)) == render_body(job({}))


def test_each_revision_has_its_own_key():
    assert (job({}).key, job({}, revision=4).key) == (f"{ID}:3", f"{ID}:4")
    assert json.loads(render_body(job({})))["id"] == job({}).key


@pytest.mark.parametrize("number", ["0.1", "1.10", "100000000000000000000.01", "1e-400", "-0"])
def test_numbers_are_not_rounded(number: str):
    assert f'"data": {{"n": {number}}}}}'.encode() in render_body(job(f'{{"n": {number}}}'))


INVOICE = {
    "invoice_number": "R-1",
    "invoice_date": "2026-01-02",
    "issuer": {"name": "Müller & Söhne", "vat_id": "DE811907980"},
    "recipient": {"name": "Acme"},
    "currency": "EUR",
    "total_net": "1000.00",
    "total_tax": "190.00",
    "total_gross": "1190.00",
}
ORDER = {"po_number": "B-7", "order_date": "2025-12-01", "supplier": {"name": "Müller"}, "buyer": {"name": "Acme"}}


def test_cluster_csv_has_a_row_per_document():
    documents = [
        {"id": "d1", "type": "invoice", "file_name": "r.xml", "structured_data": INVOICE},
        {"id": "d2", "type": "purchase_order", "file_name": "b, 2.pdf", "structured_data": ORDER},
        {"id": "d3", "type": "other", "file_name": 'a"b.pdf', "structured_data": None},
    ]
    first, second, third = lines(job({"outcome": "matched", "documents": documents}))
    assert first == {
        "subject_id": str(SUBJECT),
        "revision": "3",
        "outcome": "matched",
        "document_id": "d1",
        "type": "invoice",
        "file_name": "r.xml",
        "number": "R-1",
        "date": "2026-01-02",
        "seller": "Müller & Söhne",
        "seller_vat_id": "DE811907980",
        "buyer": "Acme",
        "buyer_vat_id": "",
        "currency": "EUR",
        "total_net": "1000.00",
        "total_tax": "190.00",
        "total_gross": "1190.00",
    }
    assert (second["number"], second["seller"], second["buyer"], second["file_name"]) == (
        "B-7",
        "Müller",
        "Acme",
        "b, 2.pdf",
    )
    assert (third["file_name"], third["number"], third["total_gross"]) == ('a"b.pdf', "", "")


def test_document_csv_has_one_row():
    (line,) = lines(job({"id": "d1", "type": "invoice", "structured_data": INVOICE}, subject="document"))
    assert (line["document_id"], line["total_gross"], line["outcome"]) == ("d1", "1190.00", "")


@pytest.mark.parametrize("payload", ["null", '{"documents": []}', "{}"])
def test_empty_payload_has_only_the_csv_header(payload: str):
    assert to_csv_rows(job(payload)).decode() == ",".join(COLUMNS) + "\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1 234",
        "-x",
        "@SUM(A1)",
        "\tx",
        "\rx",
        "-1.2.3",
        "|cmd",
        "%0A=1",
        "\x00=1",
        "\u200b=1",
        '"=1',
        "\u2212x",
    ],
)
def test_document_cannot_inject_a_formula(text: str):
    data = {"invoice_number": text, "issuer": {"name": text}}
    (line,) = lines(job({"documents": [{"file_name": text, "structured_data": data}]}))
    assert {line["number"], line["seller"], line["file_name"]} == {f"'{text}"}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("Foo;=1+1;", "Foo;'=1+1;"),  # many spreadsheets in Europe use semicolons as separators
        ("Foo\t@SUM(A1)", "Foo\t'@SUM(A1)"),
        ("Foo\r\n-x", "Foo\r\n'-x"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("|cmd", "'|cmd"),
        ("Foo;|cmd", "Foo;'|cmd"),
        ("Foo;%0A=1", "Foo;'%0A=1"),
        ("Foo;\x00=1", "Foo;'\x00=1"),
        ("Foo|=1", "Foo|'=1"),
        ("  =1+1", "'  =1+1"),
        ("  Foo", "  Foo"),
        ("(Foo) & Co", "(Foo) & Co"),
        ("Éclair", "Éclair"),
        ("\uff1d1+1", "'\uff1d1+1"),  # full-width equals sign
        ("Foo; -5", "Foo;' -5"),
        ("Müller-Söhne + Co", "Müller-Söhne + Co"),
        ("a;b", "a;b"),
    ],
)
def test_only_formula_like_parts_are_escaped(text: str, cell: str):
    (line,) = lines(job({"documents": [{"structured_data": {"issuer": {"name": text}}}]}))
    assert line["seller"] == cell


@pytest.mark.parametrize("amount", ["-5.00", "-5", "0"])
def test_amounts_are_not_escaped(amount: str):
    (line,) = lines(job({"documents": [{"structured_data": {"total_gross": amount}}]}))
    assert line["total_gross"] == amount
