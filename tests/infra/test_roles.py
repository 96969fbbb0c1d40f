"""IAM roles of the functions: exactly the permissions of their rows."""

from typing import Any

from infra.worker import MANAGE_PEOPLE
from infra.worker_table import WORKERS, WorkerSpec, queue_workers, targets
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


def pause_actions(*, local: bool) -> set[str]:
    """Return the actions for pausing a mapping.

    The local cloud authorizes the Get call as List.
    """
    return {"lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"} | (
        {"lambda:ListEventSourceMappings"} if local else set()
    )


def expected_permissions(row: WorkerSpec, *, batches: bool) -> set[tuple[str, str]]:
    """Return a row's permissions, excluding database and network access."""
    batch = {"sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
    grants = {(action, f"/aws/lambda/{row.resource_name}") for action in ("logs:CreateLogStream", "logs:PutLogEvents")}
    grants |= {(action, queue) for action in CONSUMING for queue in queues_feeding(row)}
    grants |= {("sqs:SendMessage", to) for to in queues_of(targets(WORKERS, row))}
    if row.measures_queues:
        grants |= {("sqs:GetQueueAttributes", of) for of in queues_of(queue_workers(WORKERS))}
    if batches:
        grants |= {(f"{action}Batch", queue) for action, queue in grants if action in batch}
    grants |= {("s3:PutObject", f"{prefix}*") for prefix in row.writes + row.upload_prefixes}
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
        mapping_arn = f"{ACCOUNT.format('lambda')}:event-source-mapping"  # mappings resolve to their function's name
        paused = {f"{mapping_arn}:{of.resource_name}" for of in queue_workers(WORKERS)}
        grants |= {(action, mapping) for action in pause_actions(local=batches) for mapping in paused}
    objects = {f"{prefix}*" for prefix in row.reads}
    return grants | {(action, key) for action in ("s3:GetObject", "s3:GetObjectVersion") for key in objects}


def allowed_permissions(template: Template, row: WorkerSpec) -> set[tuple[str, str]]:
    statements = template.statements(template.role_of(function_of(template, row)))
    return {
        (action, resource.rpartition(f"{BUCKET}/")[2]) for effect, action, resource in statements if effect == "Allow"
    }


def role_statements(template: Template, row: WorkerSpec) -> list[dict[str, Any]]:
    """Return the policy statements in a row's role."""
    policies = template.role_of(function_of(template, row))["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


@rows
def test_role_grants_exactly_its_row_permissions(pipeline: Template, row: WorkerSpec):
    of_lambda = {(action, "*") for action in INTERFACES | TRACING}
    rest = allowed_permissions(pipeline, row) - expected_permissions(row, batches=False) - of_lambda

    assert expected_permissions(row, batches=False) <= allowed_permissions(pipeline, row)
    ((action, resource),) = rest
    if row.database_user == "master":
        assert action == "secretsmanager:GetSecretValue"
        assert "Secret" in resource
    else:
        assert action == "rds-db:connect"
        assert resource.endswith(f"/{row.database_user}")
        assert "Proxy" in resource


@rows
def test_local_role_grants_exactly_its_row_permissions(local_pipeline: Template, row: WorkerSpec):
    assert allowed_permissions(local_pipeline, row) == expected_permissions(row, batches=True)


@rows
def test_only_configured_prefixes_can_be_listed(pipeline: Template, row: WorkerSpec):
    conditions = [s["Condition"] for s in role_statements(pipeline, row) if s["Action"] == "s3:ListBucketVersions"]

    prefixes = [f"{prefix}*" for prefix in row.lists]
    assert conditions == ([{"StringLike": {"s3:prefix": prefixes}}] if prefixes else [])


@rows
def test_only_pausing_workers_may_update_mappings(pipeline: Template, row: WorkerSpec):
    named = [
        resource["Fn::Join"][1][-1]["Ref"]
        for statement in role_statements(pipeline, row)
        if "lambda:UpdateEventSourceMapping" in statement["Action"]
        for resource in statement["Resource"]
    ]

    assert sorted(named) == (sorted(mappings_of_queues(pipeline).values()) if row.pauses_mappings else [])


@rows
def test_role_has_one_function_and_no_managed_policy(pipeline: Template, row: WorkerSpec):
    role = function_of(pipeline, row)["Role"]
    users = [f for f in pipeline.resources("AWS::Lambda::Function").values() if f["Role"] == role]

    assert len(users) == 1
    assert "ManagedPolicyArns" not in pipeline.role_of(users[0])
    assert all(len(policy["Roles"]) == 1 for policy in pipeline.resources("AWS::IAM::Policy").values())


@rows
def test_wildcards_are_limited_to_interfaces_and_traces(pipeline: Template, row: WorkerSpec):
    role = pipeline.role_of(function_of(pipeline, row))
    everything = {(effect, action) for effect, action, resource in pipeline.statements(role) if resource == "*"}

    traced = {("Allow", action) for action in TRACING}
    assert everything == traced | {(effect, action) for effect in ("Allow", "Deny") for action in INTERFACES}
    assert not [action for _, action, _ in pipeline.statements(role) if "*" in action]
    (denied,) = [s for p in role["Policies"] for s in p["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    function = pipeline.resolve(denied["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"])
    assert function.endswith(f":function:{row.resource_name}")
