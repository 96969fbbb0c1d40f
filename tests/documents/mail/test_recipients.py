"""Recipients are collected from all headers that name recipients."""

import pytest

from counterfoil.documents.mail.message import MAX_RECIPIENTS, recipients


def parse_recipients(*fields: str) -> tuple[str, ...]:
    return recipients("\r\n".join([*fields, "Subject: to nobody@else.example", "", "To: text@body.example"]).encode())


@pytest.mark.parametrize(
    "field",
    [
        "To: in@acme.example",
        "to:in@acme.example",
        "Cc: Invoices <IN@Acme.Example>",
        "To: =?utf-8?q?M=C3=BCller?= <in@acme.example>",
        'To: "Müller, Firma" <in@acme.example>',
        "Delivered-To: in@acme.example",
        "X-Original-To: in@acme.example",
        "Envelope-To: in@acme.example",
        "Resent-To: in@acme.example",
        "Received: from x.example by y.example with SMTP id 1 for in@acme.example; Fri, 02 Jan 2026",
        "Received: from x.example by y.example\r\n\tfor <in@acme.example>; Fri, 02 Jan 2026",
        "To: Team: in@acme.example;",
        "To: Team: Ann <in@acme.example>;",
        "To: in@acme.example (incoming invoices)",
        'To: "Ann \\"the scanner\\" (2)" <in@acme.example>',
        "To: Ann ((nested) \\) comment) < in@acme.example >",
        "Received: from x (HELO y) by z.example for in@acme.example (in the evening); Fri, 02 Jan 2026",
    ],
)
def test_recipient_is_found_in_any_recipient_header(field: str):
    assert parse_recipients(field) == ("in@acme.example",)


@pytest.mark.parametrize(
    "field",
    [
        "From: in@acme.example",
        "Reply-To: in@acme.example",
        "Received: from in@acme.example by y.example",
        "To: undisclosed-recipients:;",
        "To: nobody",
        "To: @acme.example",
        "To: in@localhost",
        "X-Forwarded-To: in@acme.example",
    ],
)
def test_other_headers_and_invalid_addresses_are_ignored(field: str):
    assert parse_recipients(field) == ()


@pytest.mark.parametrize(
    "field",
    [
        'To: "in@beta.example" <in@acme.example>',
        "To: in@beta.example <in@acme.example>",
        "To: <in@acme.example> (was in@beta.example)",
        "To: in@acme.example (in@beta.example, in@beta.example)",
        'To: "Ann \\", in@beta.example, \\"" <in@acme.example>',
        "To: Ann (a \\), in@beta.example, \\( b) <in@acme.example>",
        "To: =?utf-8?q?in@beta.example?= <in@acme.example>",
        'Cc: in@acme.example, "in@beta.example"',
        'Cc: in@acme.example, "x"in@beta.example',
        "Cc: in@acme.example, <in@beta.example",
        'Cc: in@acme.example, "open, in@beta.example',
        'Delivered-To: "in@beta.example" <in@acme.example>',
        "Received: from x (HELO for in@beta.example) by y.example for <in@acme.example>; Fri, 02 Jan 2026",
    ],
)
def test_display_names_and_comments_are_not_addresses(field: str):
    assert parse_recipients(field) == ("in@acme.example",)


def test_delivered_to_address_comes_first_without_duplicates():
    assert parse_recipients(
        "To: a@x.example, b@x.example",
        "Received: by y.example for c@x.example; today",
        "Cc: A@x.example, c@x.example",
        "Delivered-To: d@x.example",
    ) == ("d@x.example", "c@x.example", "a@x.example", "b@x.example")


def test_recipients_are_limited_to_the_maximum():
    many = ", ".join(f"Somebody Else <somebody.else.{n}@x.example>" for n in range(MAX_RECIPIENTS + 1))

    assert len(parse_recipients(f"To: {many}")) == MAX_RECIPIENTS


def test_recipients_of_a_truncated_header_are_returned():
    assert recipients(b"To: a@x.example, b@x.example\r\nCc: c@x.exam") == ("a@x.example", "b@x.example", "c@x.exam")


@pytest.mark.parametrize(
    "field",
    [
        b"a" * 1_000_000,
        b"a@b." * 250_000,
        b"=?" * 500_000,
        b"=?utf-8?q?a?= " * 70_000,
        b"(" * 1_000_000,
        b'\\"' * 500_000,
    ],
)
def test_hostile_header_is_parsed_within_recipient_limit(field: bytes):
    assert len(recipients(b"To: " + field + b"\r\nCc: in@acme.example\r\n\r\n")) <= MAX_RECIPIENTS
