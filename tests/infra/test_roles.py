"""What a function of the pipeline may do: what its row says, and nothing else."""

from typing import Any

from infra.worker import MANAGE_PEOPLE
from infra.worker_table import WORKERS, Row, queue_rows, targets
from tests.infra.pipeline import BUCKET, function_of, mappings_of_queues, queues_feeding, queues_of, rows
from tests.infra.synthesis import Template

CONSUMING = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"}
INTERFACES = {
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
}
TRACING = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
USER_POOL = "StateApiPeopleEFDF26F7"
ACCOUNT = "arn:AWS::Partition:{}:AWS::Region:AWS::AccountId"


def switching(*, local: bool) -> set[str]:
    """The rights to pause a mapping; the local cloud takes a look at one for a look at all."""
    return {"lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"} | (
        {"lambda:ListEventSourceMappings"} if local else set()
    )


def granted(row: Row, *, batches: bool) -> set[tuple[str, str]]:
    """What a row entitles its function to, besides its database and its network."""
    batch = {"sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
    grants = {(action, f"/aws/lambda/{row.resource_name}") for action in ("logs:CreateLogStream", "logs:PutLogEvents")}
    grants |= {(action, queue) for action in CONSUMING for queue in queues_feeding(row)}
    grants |= {("sqs:SendMessage", to) for to in queues_of(targets(WORKERS, row))}
    if row.measures_queues:
        grants |= {("sqs:GetQueueAttributes", of) for of in queues_of(queue_rows(WORKERS))}
    if batches:
        grants |= {(f"{action}Batch", queue) for action, queue in grants if action in batch}
    grants |= {("s3:PutObject", f"{prefix}*") for prefix in row.writes + row.admits}
    grants |= {("s3:DeleteObject", f"{prefix}*") for prefix in row.removes}
    if row.lists:
        grants |= {("s3:ListBucketVersions", BUCKET)}
    erasing = ["s3:DeleteObjectVersion", "s3:AbortMultipartUpload", *(["s3:DeleteObject"] if batches else [])]
    grants |= {(action, f"{prefix}*") for action in erasing for prefix in row.erases}
    if row.erases:
        grants |= {("s3:ListBucketMultipartUploads", BUCKET)}
    if row.reads_alarms:
        grants |= {("cloudwatch:DescribeAlarms", "*" if batches else f"{ACCOUNT.format('cloudwatch')}:alarm:*")}
    grants |= {("lambda:InvokeFunction", f"{ACCOUNT.format('lambda')}:function:counterfoil-{of}") for of in row.invokes}
    if row.manages_people:
        grants |= {(action, USER_POOL) for action in MANAGE_PEOPLE}
    if row.pauses_mappings:
        place = f"{ACCOUNT.format('lambda')}:event-source-mapping"  # each is written as its function
        paused = {f"{place}:{of.resource_name}" for of in queue_rows(WORKERS)}
        grants |= {(action, mapping) for action in switching(local=batches) for mapping in paused}
    objects = {f"{prefix}*" for prefix in row.reads}
    return grants | {(action, key) for action in ("s3:GetObject", "s3:GetObjectVersion") for key in objects}


def allowed(template: Template, row: Row) -> set[tuple[str, str]]:
    statements = template.statements(template.role_of(function_of(template, row)))
    return {
        (action, resource.rpartition(f"{BUCKET}/")[2]) for effect, action, resource in statements if effect == "Allow"
    }


def written(template: Template, row: Row) -> list[dict[str, Any]]:
    """The statements of a row's role."""
    policies = template.role_of(function_of(template, row))["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


@rows
def test_a_role_allows_what_its_row_says_and_nothing_else(pipeline: Template, row: Row):
    of_lambda = {(action, "*") for action in INTERFACES | TRACING}
    rest = allowed(pipeline, row) - granted(row, batches=False) - of_lambda

    assert granted(row, batches=False) <= allowed(pipeline, row)
    ((action, resource),) = rest
    if row.database_user == "master":
        assert action == "secretsmanager:GetSecretValue"
        assert "Secret" in resource
    else:
        assert action == "rds-db:connect"
        assert resource.endswith(f"/{row.database_user}")
        assert "Proxy" in resource


@rows
def test_a_local_role_allows_what_its_row_says_and_nothing_else(emulated: Template, row: Row):
    assert allowed(emulated, row) == granted(row, batches=True)


@rows
def test_only_listed_prefixes_of_the_bucket_can_be_listed(pipeline: Template, row: Row):
    conditions = [s["Condition"] for s in written(pipeline, row) if s["Action"] == "s3:ListBucketVersions"]

    prefixes = [f"{prefix}*" for prefix in row.lists]
    assert conditions == ([{"StringLike": {"s3:prefix": prefixes}}] if prefixes else [])


@rows
def test_who_pauses_queues_may_switch_their_mappings_and_no_others(pipeline: Template, row: Row):
    named = [
        resource["Fn::Join"][1][-1]["Ref"]
        for statement in written(pipeline, row)
        if "lambda:UpdateEventSourceMapping" in statement["Action"]
        for resource in statement["Resource"]
    ]

    assert sorted(named) == (sorted(mappings_of_queues(pipeline).values()) if row.pauses_mappings else [])


@rows
def test_a_role_belongs_to_one_function_and_has_no_managed_policy(pipeline: Template, row: Row):
    role = function_of(pipeline, row)["Role"]
    users = [f for f in pipeline.resources("AWS::Lambda::Function").values() if f["Role"] == role]

    assert len(users) == 1
    assert "ManagedPolicyArns" not in pipeline.role_of(users[0])
    assert all(len(policy["Roles"]) == 1 for policy in pipeline.resources("AWS::IAM::Policy").values())


@rows
def test_only_the_lambda_service_may_touch_network_interfaces_and_only_traces_have_a_wildcard_besides(
    pipeline: Template, row: Row
):
    role = pipeline.role_of(function_of(pipeline, row))
    everything = {(effect, action) for effect, action, resource in pipeline.statements(role) if resource == "*"}

    traced = {("Allow", action) for action in TRACING}
    assert everything == traced | {(effect, action) for effect in ("Allow", "Deny") for action in INTERFACES}
    assert not [action for _, action, _ in pipeline.statements(role) if "*" in action]
    (denied,) = [s for p in role["Policies"] for s in p["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    function = pipeline.resolved(denied["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"])
    assert function.endswith(f":function:{row.resource_name}")
