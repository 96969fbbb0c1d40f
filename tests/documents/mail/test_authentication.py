"""SPF, DKIM and DMARC results are read only from headers that Amazon SES adds."""

import pytest

from counterfoil.documents.mail.message import NO_RESULTS, SenderAuthentication, parse, sender_authentication
from tests.mail_factory import authentication_results, mail, received_mail

FORGED = authentication_results() + "X-SES-RECEIPT: AEFBQUFBQUFBQUFH\r\n"


def results(content: bytes) -> SenderAuthentication:
    return sender_authentication(parse(content))


@pytest.mark.parametrize("dmarc", ["pass", "fail", "none", "temperror"])
def test_authentication_results_from_ses_are_read(dmarc: str) -> None:
    auth_results = results(received_mail(mail(), results=authentication_results("softfail", "none", dmarc)))

    assert auth_results == SenderAuthentication("softfail", "none", dmarc)
    assert auth_results.is_failed == (dmarc == "fail")


def test_one_valid_signature_among_several_is_sufficient() -> None:
    stated = authentication_results().replace(" dkim=pass", " dkim=fail header.i=@a.example;\r\n dkim=pass")

    assert results(received_mail(mail(), results=stated)) == SenderAuthentication("pass", "pass", "pass")


@pytest.mark.parametrize("forged", [authentication_results(), FORGED, FORGED * 2], ids=["results", "all", "twice"])
def test_forged_results_are_ignored(forged: str) -> None:
    content = forged.encode() + mail().as_bytes()

    assert results(received_mail(content, results=authentication_results(dmarc="fail"))).is_failed
    assert results(received_mail(content, results="")) == NO_RESULTS
    assert results(content) == NO_RESULTS


@pytest.mark.parametrize(
    "stated",
    [
        "Authentication-Results: mx.attacker.example; dmarc=pass\r\n",
        "Authentication-Results: amazonses.com.attacker.example; dmarc=pass\r\n",
        "Authentication-Results: \r\n",
    ],
)
def test_results_from_another_authority_are_ignored(stated: str) -> None:
    assert results(received_mail(mail(), results=stated)) == NO_RESULTS


@pytest.mark.parametrize(
    "envelope",
    [
        '"a; dmarc=pass "@attacker.example',
        "a; dmarc=pass @attacker.example",
        'a"b@attacker.example; helo="',
        "(dmarc=pass)@attacker.example",
        "a(b@attacker.example",
    ],
)
def test_sender_address_cannot_forge_a_passing_result(envelope: str) -> None:
    stated = authentication_results(dmarc="fail").replace("buchhaltung@nordwind.example", envelope)

    assert results(received_mail(mail(), results=stated)).is_failed


def test_overlong_header_fails_authentication() -> None:
    many = "".join(f" dkim=fail header.i=@a{number}.example;\r\n" for number in range(200))
    stated = authentication_results(dmarc="fail").replace(" dmarc=", f"{many} dmarc=")

    assert results(received_mail(mail(), results=stated)).is_failed


def test_results_from_another_server_are_ignored() -> None:
    content = received_mail(mail()).replace(b"inbound-smtp.eu-west-1.amazonaws.com", b"mx.attacker.example")

    assert results(content) == NO_RESULTS
