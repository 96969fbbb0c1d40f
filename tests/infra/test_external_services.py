"""Only callers of external services get network access, permissions and secrets."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cli.local.tenants import LOCAL_ALLOWLIST
from counterfoil.settings import Settings
from infra.packaging import Package
from infra.worker_table import WORKERS, WorkerSpec
from tests.infra.synthesis import Synthesis, Template, aslist, synthesize

INTERNET = {"LLM_PROVIDER": "anthropic", "LLM_MODEL": "m", "EMAIL_FROM": "counterfoil@firm.example"}
BEDROCK = {"LLM_PROVIDER": "bedrock", "LLM_MODEL": "eu.anthropic.some-model-v1:0"}
SECRET_ARN = "arn:aws:secretsmanager:eu-central-1:000000000000:secret:mine-AbCdEf"
ALWAYS = {"s3", "sqs", "secretsmanager", "cognito-idp", "lambda", "monitoring"}
"""AWS services that every deployment calls."""
TEXTRACT = {"OCR_PROVIDER": "textract"}
TITAN = {"EMBEDDING_PROVIDER": "bedrock", "EMBEDDING_MODEL": "amazon.titan-embed-text-v2:0"}
PAUSED = {"matching": "counterfoil-matching", "tasks": "counterfoil-tasks", "tasks-retry": "counterfoil-tasks-retry"}
"""Queues of workers that depend on the language model, by mapping name. An outage pauses them."""
DEPENDENT = tuple(replace(row, depends_on="llm") if row.name in PAUSED else row for row in WORKERS)
rows = pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)


@pytest.fixture(scope="module")
def internet_app(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """An app with a model on the internet, Slack and email."""
    return synthesize(tmp_path_factory.mktemp("reaching"), {"settings": INTERNET, "enableSlack": "true"}, dependencies)


@pytest.fixture(scope="module")
def webhook_app(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """An app with webhooks and no other external service."""
    return synthesize(tmp_path_factory.mktemp("webhooks"), {"enableWebhooks": "true"}, dependencies)


@pytest.fixture(scope="module")
def bedrock_app(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """An app with a Bedrock language model."""
    return synthesize(tmp_path_factory.mktemp("bedrock"), {"settings": BEDROCK}, dependencies)


@pytest.fixture(scope="module")
def textract_app(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """An app with OCR by Textract."""
    return synthesize(tmp_path_factory.mktemp("textract"), {"settings": TEXTRACT}, dependencies)


@pytest.fixture(scope="module")
def embedding_app(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """An app with a Bedrock embedding model and no language model."""
    return synthesize(tmp_path_factory.mktemp("embedding"), {"settings": TITAN}, dependencies)


@pytest.fixture(scope="module")
def dependent_app(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """An app with Slack, an existing secret, and workers that depend on the model."""
    from infra import __main__ as program

    context = {"enableSlack": True, "secretArn": SECRET_ARN}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "WORKERS", DEPENDENT)
        return synthesize(tmp_path_factory.mktemp("paused"), context, dependencies)


def secrets(template: Template) -> list[str]:
    """Return the external services' secrets, excluding the database's secret."""
    found = template.resources("AWS::SecretsManager::Secret").items()
    return [id_ for id_, properties in found if properties.get("Name") == "counterfoil"]


def environment(template: Template, row: WorkerSpec) -> dict[str, Any]:
    variables = template.named_resource("AWS::Lambda::Function", row.resource_name)["Environment"]["Variables"]
    return {name: template.resolve(value) for name, value in variables.items()}


def granted_statements(template: Template, row: WorkerSpec, action: str) -> list[dict[str, Any]]:
    """Return the statements that allow `row` to perform an action."""
    role = template.role_of(template.named_resource("AWS::Lambda::Function", row.resource_name))
    statements = [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]
    return [template.resolve(s) for s in statements if action in aslist(s["Action"]) and s["Effect"] == "Allow"]


def endpoints(synthesis: Synthesis) -> set[str]:
    network = synthesis["network"]
    found = network.resources("AWS::EC2::VPCEndpoint").values()
    return {str(network.resolve(endpoint["ServiceName"])).rpartition(".")[2] for endpoint in found}


def subnets(synthesis: Synthesis, row: WorkerSpec) -> set[str]:
    """Return the names of a function's subnet groups."""
    placed = synthesis.app.named_resource("AWS::Lambda::Function", row.resource_name)["VpcConfig"]["SubnetIds"]
    known = {"private", "egress", "public"}
    return {name for name in known for subnet in placed if f"{name}Subnet" in json.dumps(subnet)}


def requires_internet(row: WorkerSpec) -> bool:
    """Return True if a row calls the model or Slack, which are on the internet."""
    return bool({"llm", "notifications"} & set(row.external_services))


def test_app_without_external_services_grants_no_service_permissions(aws: Synthesis):
    assert not secrets(aws.app)
    for row in WORKERS:
        assert "SECRETS_ARN" not in environment(aws.app, row)
        for action in ("ses:SendEmail", "bedrock:InvokeModel", "textract:DetectDocumentText"):
            assert not granted_statements(aws.app, row, action)


def test_internet_is_reached_through_one_nat_gateway(internet_app: Synthesis):
    assert len(internet_app["network"].resources("AWS::EC2::NatGateway")) == 1
    assert endpoints(internet_app) == ALWAYS | {"email"}


@rows
def test_only_internet_callers_are_in_egress_subnets(internet_app: Synthesis, row: WorkerSpec):
    assert subnets(internet_app, row) == ({"egress"} if requires_internet(row) else {"private"})


def test_adding_egress_keeps_private_subnet_addresses(aws: Synthesis, internet_app: Synthesis):
    def addresses(synthesis: Synthesis) -> dict[str, str]:
        found = synthesis["network"].resources("AWS::EC2::Subnet").items()
        return {id_: subnet["CidrBlock"] for id_, subnet in found if "private" in id_}

    assert len(addresses(aws)) == 2
    assert addresses(internet_app) == addresses(aws)


@rows
def test_only_internet_callers_read_the_secret(internet_app: Synthesis, row: WorkerSpec):
    pipeline = internet_app.app
    (secret,) = secrets(pipeline)
    read = [one["Resource"] for one in granted_statements(pipeline, row, "secretsmanager:GetSecretValue")]

    assert (secret in read) == requires_internet(row)
    assert environment(pipeline, row).get("SECRETS_ARN") == (secret if requires_internet(row) else None)


@rows
def test_only_notifying_workers_get_the_slack_setting(internet_app: Synthesis, aws: Synthesis, row: WorkerSpec):
    slack = environment(internet_app.app, row).get("SLACK_ENABLED")

    assert slack == ("true" if "notifications" in row.external_services else None)
    assert Settings.from_environment({"SLACK_ENABLED": slack or ""}).slack_enabled == (
        "notifications" in row.external_services
    )
    assert "SLACK_ENABLED" not in environment(aws.app, row)


def test_new_secret_is_empty_and_retained(internet_app: Synthesis):
    document = internet_app.app.document
    (secret,) = [document["Resources"][id_] for id_ in secrets(internet_app.app)]

    assert secret["Properties"]["SecretString"] == "{}"
    assert secret["DeletionPolicy"] == "Retain"


def test_existing_secret_is_used_unchanged(dependent_app: Synthesis):
    pipeline = dependent_app.app
    watchdog, matching = (next(row for row in WORKERS if row.name == name) for name in ("watchdog", "matching"))

    assert not secrets(pipeline)
    assert environment(pipeline, watchdog)["SECRETS_ARN"] == SECRET_ARN
    assert [one["Resource"] for one in granted_statements(pipeline, watchdog, "secretsmanager:GetSecretValue")] == [
        SECRET_ARN
    ]
    assert "SECRETS_ARN" not in environment(pipeline, matching)  # only the watchdog calls Slack


@rows
def test_webhooks_enable_internet_access_without_a_secret(webhook_app: Synthesis, aws: Synthesis, row: WorkerSpec):
    pipeline = webhook_app.app
    delivers = "webhooks" in row.external_services

    assert len(webhook_app["network"].resources("AWS::EC2::NatGateway")) == 1
    assert not secrets(pipeline)
    assert subnets(webhook_app, row) == ({"egress"} if delivers else {"private"})
    assert (
        Settings.from_environment(
            {"WEBHOOKS_ENABLED": environment(pipeline, row).get("WEBHOOKS_ENABLED", "")}
        ).webhooks_enabled
        == delivers
    )
    assert "WEBHOOKS_ENABLED" not in environment(aws.app, row)


def test_webhook_allowlist_is_set_in_local_cloud_only(local: Synthesis, aws: Synthesis):
    output = next(row for row in WORKERS if "webhooks" in row.external_services)
    configured = Settings.from_environment(
        {name: environment(local.app, output).get(name, "") for name in ("WEBHOOKS_ENABLED", "WEBHOOK_ALLOWLIST")}
    )

    assert configured.webhooks_enabled
    assert configured.webhook_allowlist == LOCAL_ALLOWLIST
    assert "WEBHOOK_ALLOWLIST" not in environment(aws.app, output)


@rows
def test_only_bucket_users_get_the_bucket_name(aws: Synthesis, row: WorkerSpec):
    bucket = environment(aws.app, row).get("UPLOADS_BUCKET")

    assert bucket == ("counterfoil-uploads-AWS::AccountId-AWS::Region" if row.uses_bucket else None)


@rows
def test_only_notifying_workers_may_send_mail(internet_app: Synthesis, row: WorkerSpec):
    statements = granted_statements(internet_app.app, row, "ses:SendEmail")

    if "notifications" in row.external_services:
        (statement,) = statements
        assert statement["Condition"] == {"StringEquals": {"ses:FromAddress": "counterfoil@firm.example"}}
    else:
        assert not statements


@rows
def test_settings_reach_every_function(internet_app: Synthesis, row: WorkerSpec):
    assert INTERNET.items() <= environment(internet_app.app, row).items()


def test_bedrock_requires_neither_internet_nor_secret(bedrock_app: Synthesis):
    assert not bedrock_app["network"].resources("AWS::EC2::NatGateway")
    assert not secrets(bedrock_app.app)
    assert endpoints(bedrock_app) == ALWAYS | {"bedrock-runtime"}


@rows
def test_only_model_callers_may_invoke_configured_model(bedrock_app: Synthesis, row: WorkerSpec):
    statements = granted_statements(bedrock_app.app, row, "bedrock:InvokeModel")

    if "llm" not in row.external_services:
        assert not statements
        return
    (statement,) = statements
    assert {resource.rpartition(":bedrock:")[2] for resource in statement["Resource"]} == {
        "*::foundation-model/anthropic.some-model-v1:0",
        "*::foundation-model/eu.anthropic.some-model-v1:0",
        "AWS::Region:AWS::AccountId:inference-profile/eu.anthropic.some-model-v1:0",
    }


@rows
def test_only_embedding_callers_may_invoke_embedding_model(embedding_app: Synthesis, row: WorkerSpec):
    statements = granted_statements(embedding_app.app, row, "bedrock:InvokeModel")

    assert not embedding_app["network"].resources("AWS::EC2::NatGateway")
    assert endpoints(embedding_app) == ALWAYS | {"bedrock-runtime"}
    if "embeddings" not in row.external_services:
        assert not statements
        return
    (statement,) = statements
    assert "*::foundation-model/amazon.titan-embed-text-v2:0" in {
        resource.rpartition(":bedrock:")[2] for resource in statement["Resource"]
    }


def test_language_and_embedding_models_may_use_different_providers():
    from infra.context import ExternalServices
    from infra.worker import service_statements

    both = ExternalServices(BEDROCK | {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "m"})
    matching, ingestion = (next(row for row in WORKERS if row.name == name) for name in ("matching", "ingestion"))

    assert (both.bedrock, both.internet, both.secret) == (True, True, True)
    assert (both.needs_secret(matching), both.needs_secret(ingestion)) == (True, False)
    assert [len(list(service_statements(row, both))) for row in (matching, ingestion)] == [1, 1]
    assert len(list(service_statements(matching, ExternalServices(BEDROCK | TITAN)))) == 2


@rows
def test_only_ocr_workers_may_call_textract(textract_app: Synthesis, row: WorkerSpec):
    statements = granted_statements(textract_app.app, row, "textract:DetectDocumentText")

    assert [one["Resource"] for one in statements] == (["*"] if "ocr" in row.external_services else [])
    assert endpoints(textract_app) == ALWAYS | {"textract"}
    assert not textract_app["network"].resources("AWS::EC2::NatGateway")
    assert environment(textract_app.app, row)["OCR_PROVIDER"] == "textract"


@pytest.mark.parametrize("row", DEPENDENT, ids=lambda row: row.name)
def test_only_watchdog_gets_mappings_of_dependent_workers(dependent_app: Synthesis, row: WorkerSpec):
    pipeline = dependent_app.app
    mappings = {
        pipeline.resolve(one["EventSourceArn"]): id_
        for id_, one in pipeline.resources("AWS::Lambda::EventSourceMapping").items()
    }
    variables = pipeline.named_resource("AWS::Lambda::Function", row.resource_name)["Environment"]["Variables"]

    if row.name != "watchdog":
        assert "MAPPINGS" not in variables
        return
    (joined,) = (parts for _, parts in [variables["MAPPINGS"]["Fn::Join"]])
    text = "".join(part if isinstance(part, str) else part["Ref"] for part in joined)
    assert json.loads(text) == {name: mappings[queue] for name, queue in PAUSED.items()}
