"""What functions reach outside the account's own network, as the settings of a deployment ask for it.

Nothing, as long as nobody asks: then there is no way out, and no secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from infra.workers import Outgoing, Row


@dataclass(frozen=True)
class Outside:
    """The services that a deployment uses."""

    settings: Mapping[str, str]
    slack: bool = False
    """Whether notifications go to a Slack webhook, whose address is in the secret."""
    webhooks: bool = False
    """Whether results may be delivered to webhooks, wherever tenants have them."""

    @property
    def bedrock(self) -> bool:
        """Whether the language model, or that of embeddings, is called by way of AWS, with the function's role."""
        return "bedrock" in self._models.values()

    @property
    def email(self) -> bool:
        """Whether notifications are sent by SES."""
        return "EMAIL_FROM" in self.settings

    @property
    def textract(self) -> bool:
        """Whether scanned pages are recognised by Amazon Textract."""
        return self.settings.get("OCR") == "textract"

    @property
    def internet(self) -> bool:
        """Whether anything is called by way of the internet."""
        return self.secret or self.webhooks

    @property
    def secret(self) -> bool:
        """Whether anything is called that needs a secret: tenants' webhooks have theirs in the database."""
        return bool(self._internet_models) or self.slack

    @property
    def _models(self) -> Mapping[Outgoing, str]:
        """The provider of each kind of model that is called."""
        named: dict[Outgoing, str] = {"llm": "LLM_PROVIDER", "embeddings": "EMBEDDING_PROVIDER"}
        return {kind: self.settings[name] for kind, name in named.items() if name in self.settings}

    @property
    def _internet_models(self) -> frozenset[str]:
        return frozenset(kind for kind, provider in self._models.items() if provider != "bedrock")

    def needs_internet(self, row: Row) -> bool:
        """Whether `row` calls something by way of the internet."""
        return self.needs_secret(row) or self.calls_webhooks(row)

    def needs_secret(self, row: Row) -> bool:
        """Whether `row` calls something that needs the secret."""
        return not self._internet_models.isdisjoint(row.calls_out) or self.tells_slack(row)

    def tells_slack(self, row: Row) -> bool:
        """Whether `row` sends notifications to the Slack webhook."""
        return self.slack and "notifications" in row.calls_out

    def calls_webhooks(self, row: Row) -> bool:
        """Whether `row` delivers results to tenants' webhooks."""
        return self.webhooks and "webhooks" in row.calls_out

    def statements(self, row: Row) -> list[iam.PolicyStatement]:
        """What `row` must be allowed for the AWS services that it calls out to."""
        statements = []
        if self._models.get("llm") == "bedrock" and "llm" in row.calls_out:
            statements.append(_invokes(self.settings.get("LLM_MODEL", "*")))
        if self._models.get("embeddings") == "bedrock" and "embeddings" in row.calls_out:
            statements.append(_invokes(self.settings.get("EMBEDDING_MODEL", "*")))
        if self.email and "notifications" in row.calls_out:
            statements.append(
                iam.PolicyStatement(
                    actions=["ses:SendEmail"],
                    # What SES has verified may be the address or its domain; the sender is the address in any case.
                    resources=[f"arn:{Aws.PARTITION}:ses:{Aws.REGION}:{Aws.ACCOUNT_ID}:identity/*"],
                    conditions={"StringEquals": {"ses:FromAddress": self.settings["EMAIL_FROM"]}},
                )
            )
        if self.textract and "ocr" in row.calls_out:
            # Textract knows no resources to name; a page comes with the call.
            statements.append(iam.PolicyStatement(actions=["textract:DetectDocumentText"], resources=["*"]))
        return statements


def _invokes(model: str) -> iam.PolicyStatement:
    profile = f"arn:{Aws.PARTITION}:bedrock:{Aws.REGION}:{Aws.ACCOUNT_ID}:inference-profile/{model}"
    # A profile is named after its model, with the part of the world in front, and calls it in several regions.
    models = {model, model.partition(".")[2] or model}
    return iam.PolicyStatement(
        actions=["bedrock:InvokeModel"],
        resources=[
            *(f"arn:{Aws.PARTITION}:bedrock:*::foundation-model/{name}" for name in sorted(models)),
            profile,
        ],
    )
