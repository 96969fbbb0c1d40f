"""Queues with event source mappings in moto: two for tasks and one for matching."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import boto3
import pytest
from moto import mock_aws

from counterfoil import aws

REGION = "eu-central-1"
TRUST = {"Version": "2012-10-17", "Statement": []}


@dataclass
class Account:
    """An AWS account with the queues and mappings of two workers."""

    urls: dict[str, list[str]]
    mappings: dict[str, list[UUID]]
    lambda_: Any
    sqs: Any

    def states(self, worker: str) -> list[str]:
        """Return the states of the worker's mappings."""
        return [self.lambda_.get_event_source_mapping(UUID=str(id_))["State"] for id_ in self.mappings[worker]]

    def switch_directly(self, worker: str, *, enabled: bool) -> None:
        """Switch the mappings in AWS, bypassing Counterfoil."""
        for id_ in self.mappings[worker]:
            self.lambda_.update_event_source_mapping(UUID=str(id_), Enabled=enabled)


@pytest.fixture(scope="module")
def shared_account() -> Iterator[Account]:
    """The account, created once per module because that takes a second."""
    clear_clients = aws.client.cache_clear
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        clear_clients()
        yield _account()
    clear_clients()


@pytest.fixture
def account(shared_account: Account) -> Account:
    """The shared account, with every mapping enabled."""
    for worker in shared_account.mappings:
        shared_account.switch_directly(worker, enabled=True)
    return shared_account


def _account() -> Account:
    make_client: Any = boto3.client
    lambda_, sqs, iam = (make_client(name, region_name=REGION) for name in ("lambda", "sqs", "iam"))
    role = iam.create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as bundle:
        bundle.writestr("h.py", "")
    account = Account({}, {}, lambda_, sqs)
    for worker, suffixes in {"tasks": ("", "-retry"), "matching": ("",)}.items():
        name = f"counterfoil-{worker}"
        lambda_.create_function(
            FunctionName=name, Runtime="python3.13", Role=role, Handler="h.h", Code={"ZipFile": code.getvalue()}
        )
        account.urls[worker], account.mappings[worker] = [], []
        for suffix in suffixes:
            url = sqs.create_queue(QueueName=f"{name}{suffix}")["QueueUrl"]
            arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
            mapping = lambda_.create_event_source_mapping(EventSourceArn=arn, FunctionName=name)["UUID"]
            account.urls[worker].append(url)
            account.mappings[worker].append(UUID(mapping))
    return account


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")
