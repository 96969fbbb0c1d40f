"""Operators release or reject held mail in the console.

Admins set the policy.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import upload
from counterfoil.db import Connection
from tests.e2e.console.ambiguous_invoices import SEED
from tests.e2e.console.conftest import Console
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page
from tests.e2e.polling import wait_until
from tests.mail_factory import authentication_results, mail, received_mail
from tools.sample_generator.cases import generate_cases

pytestmark = pytest.mark.e2e
SENDERS = ("Nordwind GmbH <buchhaltung@nordwind.example>", "Forged AG <a-very-long-mailbox-name@forged.example>")
HELD = "SELECT count(*) FROM source WHERE tenant_id = %s AND hold = 'held'"


@pytest.fixture
def held_mail_tenant(cloud: Cloud, tenant: Tenant, admin: Connection, tmp_path: Path) -> None:
    """A tenant with two held emails that fail DMARC, each with a document."""
    address = f"in@{tenant.slug}.example"
    add_tenant(cloud, tenant.slug, addresses=[address])
    for number, (sender, attachment) in enumerate(zip(SENDERS, generate_cases(SEED).files(), strict=False)):
        message = mail(attachment, to=address, sender=sender, message_id=f"<{number}@{tenant.slug}.example>")
        content = received_mail(message, delivered_to=address, results=authentication_results("fail", "none", "fail"))
        (tmp_path / f"{number}.eml").write_bytes(content)
    list(upload(cloud, None, sorted(tmp_path.iterdir())))
    wait_until(lambda: admin.execute(HELD, [tenant.id]).fetchone() == (len(SENDERS),), seconds=120)


def test_operator_releases_and_rejects_held_mail(console: Console, tenant: Tenant, held_mail_tenant: None) -> None:
    page = console.open("operator", tenant, "mail")
    mails = rows(page, "Emails")
    expect(mails).to_have_count(2)
    expect(mails.first).to_contain_text("DMARC fail")
    check_page(page, "mail")

    genuine_mail = mails.filter(has_text="nordwind")
    genuine_mail.get_by_role("button", name="Reject").focus()
    page.keyboard.press("e")
    dialog = page.get_by_role("dialog", name="Release this email?")
    expect(dialog).to_contain_text("nordwind.example")
    check_page(page, "mail-release")
    page.keyboard.type("The supplier confirmed it.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("was released. Its attachments are processed as documents.")).to_be_focused()
    expect(mails).to_have_count(1)

    page.keyboard.press("j")
    page.keyboard.press("r")
    page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    expect(page.get_by_role("heading", name="No emails on hold")).to_be_visible()
    check_page(page, "mail-none")
    page.get_by_label("Status").select_option("Rejected")
    expect(page.get_by_role("heading", name="Rejected emails")).to_be_visible()
    expect(mails).to_contain_text("forged.example")
    check_page(page, "mail-rejected")
    page.get_by_role("link", name="Audit trail").click()
    expect(rows(page, "Entries")).to_contain_text("Mail rejected")

    page.get_by_role("link", name="Documents", exact=True).click()
    expect(rows(page, "Documents")).to_have_count(1)


def test_second_decision_about_held_mail_is_refused(console: Console, tenant: Tenant, held_mail_tenant: None) -> None:
    first, second = (console.open("operator", tenant, "mail") for _ in range(2))
    for page in (first, second):
        expect(rows(page, "Emails")).to_have_count(2)
        rows(page, "Emails").filter(has_text="nordwind").get_by_role("button", name="Release").click()
    first.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(rows(first, "Emails")).to_have_count(1)

    second.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(second.get_by_role("alert")).to_contain_text("already released or rejected")
    check_page(second, "mail-conflict")


def test_admin_changes_the_policy(console: Console, tenant: Tenant) -> None:
    page = console.open("admin", tenant, "mail")
    policy = page.get_by_role("region", name="Policy")
    expect(policy).to_contain_text("On hold")
    policy.get_by_role("button", name="Change policy").click()
    dialog = page.get_by_role("dialog", name="Change the policy")
    expect(dialog.get_by_role("button", name="Change")).to_be_disabled()
    check_page(page, "mail-policy")
    dialog.get_by_role("radio", name="Rejected").check()
    dialog.get_by_role("button", name="Change").click()

    expect(page.get_by_text("The policy was changed to “Rejected”.")).to_be_focused()
    expect(policy).to_contain_text("Attachments are not processed.")


def test_viewer_cannot_decide_or_change_the_policy(console: Console, tenant: Tenant, held_mail_tenant: None) -> None:
    page = console.open("viewer", tenant, "mail")
    expect(rows(page, "Emails")).to_have_count(2)

    expect(page.get_by_text("Releasing or rejecting an email requires the operator role.")).to_be_visible()
    for name in ("Release", "Reject", "Change policy"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
