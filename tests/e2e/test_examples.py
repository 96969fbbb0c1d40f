"""The documented example commands run in order against the local cloud."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from cli.local.cloud import Cloud
from cli.local.paths import ROOT
from cli.local.tenants import select_tenants
from tests.e2e.chaos import watchdog_running
from tests.e2e.conftest import COMMAND, UP_SECONDS, CommandLine
from tests.e2e.polling import wait_until
from tools.sample_generator.cases import generate_cases

pytestmark = pytest.mark.e2e


def examples(page: str) -> list[str]:
    """Return the commands in the first code block after `counterfoil --help`."""
    block = (ROOT / page).read_text().split("counterfoil --help`")[1].split("```")[1]
    return [line.partition("#")[0].strip() for line in block.strip().splitlines()]


EXAMPLES = examples("docs/operations.md")
TESTED_ELSEWHERE = {
    "counterfoil down": "it would stop the cloud that other tests use; the fixture runs it at the end",
    "counterfoil chat --fake-llm": "it deploys the cloud with another model; tests/cli/test_chat.py",
    "counterfoil replay": "tests/e2e/test_replay.py",
    "counterfoil simulate": "tests/tools/simulation",
}
"""Examples that this test skips, with the reason or the test that runs them."""
CASE = "billed at another price"


class ExampleRunner:
    """Runs the examples as a user would, in a folder with the files that they name."""

    def __init__(self, cloud: Cloud, folder: Path, cloud_folder: Path) -> None:
        self.cloud, self.folder, self.cloud_folder = cloud, folder, cloud_folder
        cases = generate_cases(1, "invoices@acme.example")
        (case,) = (case for case in cases.cases if case.title == CASE)
        (sent,) = (mail for name, mail in cases.mails() if name == f"{case.documents[-1].document.number}.eml")
        (folder / "invoices").mkdir()
        for part in message_from_bytes(sent, policy=default).iter_attachments():
            name, content = str(part.get_filename()), part.get_content()
            (folder / "invoices" / name).write_bytes(content)
            if name.endswith(".pdf"):
                (folder / "invoice.pdf").write_bytes(content)
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "ann@globex.example", "invoices@acme.example", "Invoice"
        mail.add_attachment(b"%PDF-1.4 broken", maintype="application", subtype="pdf", filename="broken.pdf")
        (folder / "invoice.eml").write_bytes(bytes(mail))

    def run(self, example: str) -> str:
        """Run an example with ids from this cloud. Return its standard output and error."""
        _, *arguments = shlex.split(example)
        arguments = [
            self._id(arguments) if word == "4f1c" else word.replace("~", str(self.folder)) for word in arguments
        ]
        process = subprocess.run(
            [str(COMMAND), "--local", str(self.cloud_folder), *arguments],
            cwd=self.folder,
            text=True,
            capture_output=True,
            check=False,
            timeout=UP_SECONDS,
            env=os.environ | {"HOME": str(self.folder), "BROWSER": "true"},
        )
        assert process.returncode == 0, f"{example}\n{process.stdout}\n{process.stderr}"
        return process.stdout + process.stderr

    def _id(self, arguments: list[str]) -> str:
        (tenant,) = select_tenants(self.cloud, "acme")

        def first(statement: str) -> Callable[[], Any]:
            def query() -> Any:
                with self.cloud.database.tenant(tenant.id) as connection:
                    row = connection.execute(statement.encode()).fetchone()
                return None if row is None else str(row[0])

            return query

        if arguments[0] == "clusters":
            id_ = wait_until(
                first("SELECT id FROM cluster_diagnostics WHERE status = 'succeeded' AND match_status = 'exception'")
            )
            return str(id_)[-8:]
        return str(wait_until(first("SELECT fingerprint FROM dead_letter WHERE status = 'pending'")))[:8]


def test_documented_examples_run_in_order(cloud: Cloud, command_line: CommandLine, tmp_path: Path) -> None:
    runner = ExampleRunner(cloud, tmp_path, command_line.folder)

    with watchdog_running(cloud, worker="Bulk"):
        outputs = {example: runner.run(example) for example in EXAMPLES if example not in TESTED_ELSEWHERE}

    assert len(outputs) == len(EXAMPLES) - len(TESTED_ELSEWHERE)
    assert re.search(r"3 succeeded", outputs["counterfoil ingest ~/invoices --tenant acme --wait"])
    assert "billed" in outputs["counterfoil clusters show 4f1c"]
    assert "1 dead letter" in outputs["counterfoil dlq bulk-retry --tenant acme --group 4f1c"]
    assert (tmp_path / "dead-letters.csv").read_text().count("broken.pdf") >= 1
    command_line.run("tenants", "destinations", "remove", "acme", "erp")


def test_skipped_examples_are_documented() -> None:
    assert set(TESTED_ELSEWHERE) <= set(EXAMPLES)


def test_readme_shows_documented_examples() -> None:
    assert [example for example in EXAMPLES if example in examples("README.md")] == examples("README.md")
