"""Uploads in the console: dropped files, and each file's outcome."""

import pytest
from playwright.sync_api import Page, expect

from cli.local import uploads
from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from counterfoil.documents.upload_list import State
from tests.e2e.console.conftest import Console
from tests.e2e.console.page_checks import check_page
from tests.e2e.polling import wait_until

pytestmark = pytest.mark.e2e
_CREATE_DROPPED = """(files) => {
    const dropped = new DataTransfer();
    for (const [name, text] of files) dropped.items.add(new File(text ? [text] : [], name));
    return dropped;
}"""


def drop(page: Page, **files: str) -> None:
    """Drop files in the middle of the page. `files` maps names to contents."""
    data_transfer = page.evaluate_handle(_CREATE_DROPPED, [[f"{name}.xml", text] for name, text in files.items()])
    page.dispatch_event("main", "dragenter", {"dataTransfer": data_transfer})
    expect(page.get_by_text("Drop documents for")).to_be_visible()
    page.dispatch_event("main", "drop", {"dataTransfer": data_transfer})


def test_dropped_files_are_uploaded_or_refused(console: Console, cloud: Cloud, tenant: Tenant) -> None:
    page = console.open("operator", tenant, "tasks")
    drop(page, Größe="<Invoice/>", empty="")

    panel = page.get_by_role("complementary", name="Uploads")
    expect(panel.get_by_role("status")).to_have_text("1 file uploaded, 1 failed")
    expect(panel.locator("li.failed")).to_contain_text("The file is empty")
    check_page(page, "uploads")
    (uploaded,) = wait_until(lambda: [item for item in uploads.list_uploads(cloud, tenant) if item.state.is_final], 60)
    assert (uploaded.file, uploaded.state) == ("Größe.xml", State.IGNORED)


def test_viewer_cannot_drop_documents(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "tasks")
    data_transfer = page.evaluate_handle(_CREATE_DROPPED, [["invoice.xml", "<Invoice/>"]])
    page.dispatch_event("main", "dragenter", {"dataTransfer": data_transfer})

    expect(page.get_by_text("Drop documents for")).to_have_count(0)
