"""What is called outside gets its way there, its right and its secret, and nothing else does."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cli.local.tenants import LOCAL_ALLOWLIST
from counterfoil.settings import Settings
from infra.packaging import Package
from infra.worker_table import WORKERS, Row
from tests.infra.synthesis import Synthesis, Template, aslist, synthesise

INTERNET = {"LLM_PROVIDER": "anthropic", "LLM_MODEL": "m", "EMAIL_FROM": "counterfoil@firm.example"}
BEDROCK = {"LLM_PROVIDER": "bedrock", "LLM_MODEL": "eu.anthropic.some-model-v1:0"}
SECRET_ARN = "arn:aws:secretsmanager:eu-central-1:000000000000:secret:mine-AbCdEf"
ALWAYS = {"s3", "sqs", "secretsmanager", "cognito-idp", "lambda", "monitoring"}
"""The services that functions of every deployment call."""
RECOGNISING = {"OCR": "textract"}
TITAN = {"EMBEDDING_PROVIDER": "bedrock", "EMBEDDING_MODEL": "amazon.titan-embed-text-v2:0"}
PAUSED = {"matching": "counterfoil-matching", "tasks": "counterfoil-tasks", "tasks-retry": "counterfoil-tasks-retry"}
"""Queues that are paused together with what they depend on, by the names of their mappings."""
DEPENDENT = tuple(replace(row, depends_on="llm") if row.name in PAUSED else row for row in WORKERS)
rows = pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)


@pytest.fixture(scope="module")
def reaching(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """A model of the internet, Slack and e-mail."""
    return synthesise(tmp_path_factory.mktemp("reaching"), {"settings": INTERNET, "slack": "true"}, dependencies)


@pytest.fixture(scope="module")
def webhooks(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Webhooks, and nothing else outside."""
    return synthesise(tmp_path_factory.mktemp("webhooks"), {"webhooks": "true"}, dependencies)


@pytest.fixture(scope="module")
def bedrock(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """A model that AWS serves."""
    return synthesise(tmp_path_factory.mktemp("bedrock"), {"settings": BEDROCK}, dependencies)


@pytest.fixture(scope="module")
def recognising(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Scanned pages recognised by AWS."""
    return synthesise(tmp_path_factory.mktemp("recognising"), {"settings": RECOGNISING}, dependencies)


@pytest.fixture(scope="module")
def embedding(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """A model of embeddings that AWS serves, and no language model."""
    return synthesise(tmp_path_factory.mktemp("embedding"), {"settings": TITAN}, dependencies)


@pytest.fixture(scope="module")
def paused(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Slack with a secret of one's own, and a table in which all of matching's work needs the model."""
    from infra import __main__ as program

    context = {"slack": True, "secretArn": SECRET_ARN}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "WORKERS", DEPENDENT)
        return synthesise(tmp_path_factory.mktemp("paused"), context, dependencies)


def secrets(template: Template) -> list[str]:
    """The secrets of services outside. The database has another."""
    found = template.resources("AWS::SecretsManager::Secret").items()
    return [id_ for id_, properties in found if properties.get("Name") == "counterfoil"]


def environment(template: Template, row: Row) -> dict[str, Any]:
    variables = template.named("AWS::Lambda::Function", row.resource_name)["Environment"]["Variables"]
    return {name: template.resolved(value) for name, value in variables.items()}


def granted(template: Template, row: Row, action: str) -> list[dict[str, Any]]:
    """The statements that allow `row` an action."""
    role = template.role_of(template.named("AWS::Lambda::Function", row.resource_name))
    statements = [one for policy in role["Policies"] for one in policy["PolicyDocument"]["Statement"]]
    found = [one for one in statements if action in aslist(one["Action"]) and one["Effect"] == "Allow"]
    return [template.resolved(one) for one in found]


def endpoints(synthesis: Synthesis) -> set[str]:
    network = synthesis["network"]
    found = network.resources("AWS::EC2::VPCEndpoint").values()
    return {str(network.resolved(endpoint["ServiceName"])).rpartition(".")[2] for endpoint in found}


def subnets(synthesis: Synthesis, row: Row) -> set[str]:
    """The names of the groups of subnets that a function is in."""
    placed = synthesis.app.named("AWS::Lambda::Function", row.resource_name)["VpcConfig"]["SubnetIds"]
    known = {"private", "egress", "public"}
    return {name for name in known for subnet in placed if f"{name}Subnet" in json.dumps(subnet)}


def reaches_internet(row: Row) -> bool:
    """Whether a row calls what is on the internet where a model and Slack are."""
    return bool({"llm", "notifications"} & set(row.calls_out))


def test_who_calls_nothing_outside_gets_no_secret_and_no_further_right(aws: Synthesis):
    assert not secrets(aws.app)
    for row in WORKERS:
        assert "SECRETS_ARN" not in environment(aws.app, row)
        for action in ("ses:SendEmail", "bedrock:InvokeModel", "textract:DetectDocumentText"):
            assert not granted(aws.app, row, action)


def test_what_is_on_the_internet_is_reached_through_one_gateway(reaching: Synthesis):
    assert len(reaching["network"].resources("AWS::EC2::NatGateway")) == 1
    assert endpoints(reaching) == ALWAYS | {"email"}


@rows
def test_only_those_who_call_the_internet_have_a_way_to_it(reaching: Synthesis, row: Row):
    assert subnets(reaching, row) == ({"egress"} if reaches_internet(row) else {"private"})


def test_private_subnets_stay_where_they_are_when_a_way_out_is_asked_for(aws: Synthesis, reaching: Synthesis):
    def addresses(synthesis: Synthesis) -> dict[str, str]:
        found = synthesis["network"].resources("AWS::EC2::Subnet").items()
        return {id_: subnet["CidrBlock"] for id_, subnet in found if "private" in id_}

    assert len(addresses(aws)) == 2
    assert addresses(reaching) == addresses(aws)


@rows
def test_the_secret_is_read_by_those_who_call_the_internet(reaching: Synthesis, row: Row):
    pipeline = reaching.app
    (secret,) = secrets(pipeline)
    read = [one["Resource"] for one in granted(pipeline, row, "secretsmanager:GetSecretValue")]

    assert (secret in read) == reaches_internet(row)
    assert environment(pipeline, row).get("SECRETS_ARN") == (secret if reaches_internet(row) else None)


@rows
def test_who_notifies_is_told_that_slack_is_wanted_whatever_the_secret_holds(
    reaching: Synthesis, aws: Synthesis, row: Row
):
    told = environment(reaching.app, row).get("SLACK")

    assert told == ("true" if "notifications" in row.calls_out else None)
    assert Settings.from_environment({"SLACK": told or ""}).slack == ("notifications" in row.calls_out)
    assert "SLACK" not in environment(aws.app, row)


def test_a_new_secret_is_empty_and_survives_the_stack(reaching: Synthesis):
    document = reaching.app.document
    (secret,) = [document["Resources"][id_] for id_ in secrets(reaching.app)]

    assert secret["Properties"]["SecretString"] == "{}"
    assert secret["DeletionPolicy"] == "Retain"


def test_a_secret_of_ones_own_is_used_as_it_is(paused: Synthesis):
    pipeline = paused.app
    watchdog, matching = (next(row for row in WORKERS if row.name == name) for name in ("watchdog", "matching"))

    assert not secrets(pipeline)
    assert environment(pipeline, watchdog)["SECRETS_ARN"] == SECRET_ARN
    assert [one["Resource"] for one in granted(pipeline, watchdog, "secretsmanager:GetSecretValue")] == [SECRET_ARN]
    assert "SECRETS_ARN" not in environment(pipeline, matching)  # Slack is the watchdog's business alone


@rows
def test_webhooks_alone_have_a_way_out_without_a_secret(webhooks: Synthesis, aws: Synthesis, row: Row):
    pipeline = webhooks.app
    delivers = "webhooks" in row.calls_out

    assert len(webhooks["network"].resources("AWS::EC2::NatGateway")) == 1
    assert not secrets(pipeline)
    assert subnets(webhooks, row) == ({"egress"} if delivers else {"private"})
    assert Settings.from_environment({"WEBHOOKS": environment(pipeline, row).get("WEBHOOKS", "")}).webhooks == delivers
    assert "WEBHOOKS" not in environment(aws.app, row)


def test_the_local_cloud_delivers_to_receivers_of_the_same_machine_and_aws_to_none(local: Synthesis, aws: Synthesis):
    output = next(row for row in WORKERS if "webhooks" in row.calls_out)
    told = Settings.from_environment(
        {name: environment(local.app, output).get(name, "") for name in ("WEBHOOKS", "WEBHOOK_ALLOWLIST")}
    )

    assert told.webhooks
    assert told.webhook_allowlist == LOCAL_ALLOWLIST
    assert "WEBHOOK_ALLOWLIST" not in environment(aws.app, output)


@rows
def test_who_uses_the_bucket_is_told_its_name(aws: Synthesis, row: Row):
    bucket = environment(aws.app, row).get("UPLOADS_BUCKET")

    assert bucket == ("counterfoil-uploads-AWS::AccountId-AWS::Region" if row.uses_bucket else None)


@rows
def test_mail_is_sent_from_the_given_address_by_those_who_notify(reaching: Synthesis, row: Row):
    statements = granted(reaching.app, row, "ses:SendEmail")

    if "notifications" in row.calls_out:
        (statement,) = statements
        assert statement["Condition"] == {"StringEquals": {"ses:FromAddress": "counterfoil@firm.example"}}
    else:
        assert not statements


@rows
def test_settings_reach_every_function(reaching: Synthesis, row: Row):
    assert INTERNET.items() <= environment(reaching.app, row).items()


def test_a_model_of_aws_is_called_inside_the_network_without_a_secret(bedrock: Synthesis):
    assert not bedrock["network"].resources("AWS::EC2::NatGateway")
    assert not secrets(bedrock.app)
    assert endpoints(bedrock) == ALWAYS | {"bedrock-runtime"}


@rows
def test_only_those_who_ask_the_model_may_call_it_and_no_other_model(bedrock: Synthesis, row: Row):
    statements = granted(bedrock.app, row, "bedrock:InvokeModel")

    if "llm" not in row.calls_out:
        assert not statements
        return
    (statement,) = statements
    assert {resource.rpartition(":bedrock:")[2] for resource in statement["Resource"]} == {
        "*::foundation-model/anthropic.some-model-v1:0",
        "*::foundation-model/eu.anthropic.some-model-v1:0",
        "AWS::Region:AWS::AccountId:inference-profile/eu.anthropic.some-model-v1:0",
    }


@rows
def test_only_those_who_embed_may_call_that_model_inside_the_network(embedding: Synthesis, row: Row):
    statements = granted(embedding.app, row, "bedrock:InvokeModel")

    assert not embedding["network"].resources("AWS::EC2::NatGateway")
    assert endpoints(embedding) == ALWAYS | {"bedrock-runtime"}
    if "embeddings" not in row.calls_out:
        assert not statements
        return
    (statement,) = statements
    assert "*::foundation-model/amazon.titan-embed-text-v2:0" in {
        resource.rpartition(":bedrock:")[2] for resource in statement["Resource"]
    }


def test_two_models_are_called_each_on_its_way():
    from infra.context import ExternalServices
    from infra.worker import service_statements

    both = ExternalServices(BEDROCK | {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "m"})
    matching, ingestion = (next(row for row in WORKERS if row.name == name) for name in ("matching", "ingestion"))

    assert (both.bedrock, both.internet, both.secret) == (True, True, True)
    assert (both.needs_secret(matching), both.needs_secret(ingestion)) == (True, False)
    assert [len(list(service_statements(row, both))) for row in (matching, ingestion)] == [1, 1]
    assert len(list(service_statements(matching, ExternalServices(BEDROCK | TITAN)))) == 2


@rows
def test_only_those_who_read_scans_may_have_them_recognised_inside_the_network(recognising: Synthesis, row: Row):
    statements = granted(recognising.app, row, "textract:DetectDocumentText")

    assert [one["Resource"] for one in statements] == (["*"] if "ocr" in row.calls_out else [])
    assert endpoints(recognising) == ALWAYS | {"textract"}
    assert not recognising["network"].resources("AWS::EC2::NatGateway")
    assert environment(recognising.app, row)["OCR"] == "textract"


@pytest.mark.parametrize("row", DEPENDENT, ids=lambda row: row.name)
def test_a_worker_all_of_whose_work_needs_the_model_is_paused_by_the_watchdog_alone(paused: Synthesis, row: Row):
    pipeline = paused.app
    mappings = {
        pipeline.resolved(one["EventSourceArn"]): id_
        for id_, one in pipeline.resources("AWS::Lambda::EventSourceMapping").items()
    }
    variables = pipeline.named("AWS::Lambda::Function", row.resource_name)["Environment"]["Variables"]

    if row.name != "watchdog":
        assert "MAPPINGS" not in variables
        return
    (told,) = (parts for _, parts in [variables["MAPPINGS"]["Fn::Join"]])
    text = "".join(part if isinstance(part, str) else part["Ref"] for part in told)
    assert json.loads(text) == {name: mappings[queue] for name, queue in PAUSED.items()}
