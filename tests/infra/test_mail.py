"""Mail on AWS: SES stores mail under `inbox/` if a domain is configured."""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.documents import files
from infra.packaging import Package
from infra.worker_table import NOTIFIED_PREFIXES
from tests.infra.synthesis import Synthesis, Template, synthesize

BUCKET = "counterfoil-uploads-AWS::AccountId-AWS::Region"
RULE = "arn:AWS::Partition:ses:AWS::Region:AWS::AccountId:receipt-rule-set/counterfoil:receipt-rule/inbox"


@pytest.fixture(scope="module")
def mail_template(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Template:
    folder: Path = tmp_path_factory.mktemp("mail")
    return synthesize(folder, {"mailDomain": "in.acme.example"}, dependencies).app


def statements(template: Template) -> list[dict[str, Any]]:
    (policy,) = template.resources("AWS::S3::BucketPolicy").values()
    return [template.resolve(statement) for statement in policy["PolicyDocument"]["Statement"]]


def test_mail_is_scanned_and_stored_unchanged(mail_template: Template):
    rule = mail_template.resolve(mail_template.only_resource("AWS::SES::ReceiptRule"))

    assert (
        rule["RuleSetName"] == mail_template.only_resource("AWS::SES::ReceiptRuleSet")["RuleSetName"] == "counterfoil"
    )
    assert rule["Rule"] == {
        "Name": "inbox",
        "Enabled": True,
        "Recipients": ["in.acme.example"],
        "ScanEnabled": True,
        "TlsPolicy": "Optional",
        "Actions": [{"S3Action": {"BucketName": BUCKET, "ObjectKeyPrefix": "inbox/"}}],
    }


def test_only_own_receipt_rule_may_store_mail(mail_template: Template):
    (allowed,) = [statement for statement in statements(mail_template) if statement["Effect"] == "Allow"]

    assert allowed["Principal"] == {"Service": "ses.amazonaws.com"}
    assert allowed["Action"] == "s3:PutObject"
    assert allowed["Resource"].endswith(f"{BUCKET}/inbox/*")
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": "AWS::AccountId", "aws:SourceArn": RULE}}


def test_mx_record_is_a_stack_output(mail_template: Template):
    exchanger = mail_template.document["Outputs"]["MailExchanger"]["Value"]

    assert mail_template.resolve(exchanger) == "10 inbound-smtp.AWS::Region.amazonaws.com"


def test_bucket_policy_allows_nothing_without_mail_domain(aws: Synthesis):
    assert aws.app.resources("AWS::SES::ReceiptRule") == {}
    assert [statement for statement in statements(aws.app) if statement["Effect"] == "Allow"] == []


def test_notified_prefixes_match_acquisition():
    from infra.data import INBOX

    assert NOTIFIED_PREFIXES == (files.PREFIX, files.INBOX)
    assert INBOX == files.INBOX
