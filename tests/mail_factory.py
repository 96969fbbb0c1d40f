"""Create emails as mail programs write them and as SES stores them."""

from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any

from tests.documents.reading.samples import picture

PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj <<>> endobj trailer <<>>\n%%EOF\n"
XML = b'<?xml version="1.0"?>\n<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"/>\n'
LOGO = picture("PNG", (180, 60))
SCAN = picture("PNG", (1240, 1754))

Attachment = tuple[str | None, bytes]
"""File name (or None) and content."""


def mail(
    *attachments: Attachment,
    to: str = "Rechnungen <rechnung@acme.example>",
    sender: str = "Nordwind GmbH <buchhaltung@nordwind.example>",
    subject: str = "Ihre Rechnung 2026-17",
    message_id: str | None = "<17@nordwind.example>",
    inline: Sequence[Attachment] = (),
    text: str = "Guten Tag,\n\nanbei unsere Rechnung.\n",
) -> EmailMessage:
    """Return an email with a text in two formats, inline images and attachments."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject
    if message_id is not None:
        message["Message-ID"] = message_id
    message.set_content(text)
    message.add_alternative(f"<p>{text}</p><img src='cid:logo'>", subtype="html")
    alternatives: Any = message.get_payload()
    for name, content in inline:
        alternatives[1].add_related(content, "image", "png", cid="<logo>", filename=name, disposition="inline")
    for name, content in attachments:
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return message


def authentication_results(spf: str = "pass", dkim: str = "pass", dmarc: str = "pass") -> str:
    """Return the header fields with SES's sender authentication results."""
    spf_result = (
        f"{spf} (spfCheck: domain of nordwind.example designates 192.0.2.17 as permitted sender) "
        "client-ip=192.0.2.17; envelope-from=buchhaltung@nordwind.example; helo=mail.nordwind.example;"
    )
    return (
        f"Received-SPF: {spf_result}\r\n"
        f"Authentication-Results: amazonses.com;\r\n spf={spf_result}\r\n"
        f" dkim={dkim} header.i=@nordwind.example;\r\n"
        f" dmarc={dmarc} header.from=nordwind.example;\r\n"
    )


def received_mail(
    message: EmailMessage | bytes,
    *,
    delivered_to: str = "rechnung@acme.example",
    spam: str = "PASS",
    virus: str = "PASS",
    results: str = authentication_results(),
) -> bytes:
    """Return an email as SES stores it, with the header fields that SES adds."""
    header = (
        "Return-Path: <buchhaltung@nordwind.example>\r\n"
        "Received: from mail.nordwind.example (mail.nordwind.example [192.0.2.17])\r\n"
        " by inbound-smtp.eu-west-1.amazonaws.com with SMTP id 5q3vl6o8\r\n"
        f" for {delivered_to};\r\n"
        " Fri, 02 Jan 2026 03:04:05 +0000 (UTC)\r\n"
        f"X-SES-Spam-Verdict: {spam}\r\n"
        f"X-SES-Virus-Verdict: {virus}\r\n"
        f"{results}"
        "X-SES-RECEIPT: AEFBQUFBQUFBQUFH\r\n"
    )
    return header.encode() + (message if isinstance(message, bytes) else message.as_bytes())
