"""The network: private subnets, and endpoints for the services that functions call.

There is a way to the internet only where a deployment's settings name something there, and only for those who call it.
"""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.outside import Outside
from infra.workers import Row

SUBNETS = ec2.SubnetSelection(subnet_group_name="private")
EGRESS = ec2.SubnetSelection(subnet_group_name="egress")


class NetworkStack(Stack):
    """VPC, subnets in two availability zones, endpoints, and the security groups of the functions.

    Lambda itself carries a function's logs to CloudWatch and its traces to X-Ray, so that no endpoint is needed.
    """

    def __init__(self, scope: Construct, id_: str, *, outside: Outside, **stack: Any) -> None:
        """Create the stack for functions that call `outside`. `stack` is what aws_cdk.Stack takes."""
        super().__init__(scope, id_, **stack)
        self._outside = outside
        subnets = [
            ec2.SubnetConfiguration(name="private", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20),
        ]
        if outside.internet:  # behind the private ones, whose addresses stay as they are when this is asked for later
            subnets += [
                ec2.SubnetConfiguration(name="egress", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=20),
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28),
            ]
        self.vpc = ec2.Vpc(
            self, "Vpc", max_azs=2, nat_gateways=1 if outside.internet else 0, subnet_configuration=subnets
        )
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        for name, (wanted, service) in {
            "Sqs": (True, ec2.InterfaceVpcEndpointAwsService.SQS),
            "SecretsManager": (True, ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER),
            "Bedrock": (outside.bedrock, ec2.InterfaceVpcEndpointAwsService.BEDROCK_RUNTIME),
            "Email": (outside.email, ec2.InterfaceVpcEndpointAwsService.EMAIL),
            "Textract": (outside.textract, ec2.InterfaceVpcEndpointAwsService.TEXTRACT),
            "Lambda": (True, ec2.InterfaceVpcEndpointAwsService.LAMBDA_),  # queues are paused
            "Monitoring": (True, ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING),  # alarms are shown
        }.items():
            if wanted:
                self.vpc.add_interface_endpoint(name, service=service, subnets=SUBNETS)
        self.functions = ec2.SecurityGroup(
            self, "Functions", vpc=self.vpc, description="Functions: they reach PostgreSQL by way of the proxy"
        )
        self.migrations = ec2.SecurityGroup(
            self, "Migrations", vpc=self.vpc, description="The function that migrates: it reaches PostgreSQL directly"
        )

    def security_group(self, row: Row) -> ec2.SecurityGroup:
        """The group that `row`'s function belongs to."""
        return self.migrations if row.database_user == "master" else self.functions

    def subnets(self, row: Row) -> ec2.SubnetSelection:
        """Where `row`'s function is placed."""
        return EGRESS if self._outside.needs_internet(row) else SUBNETS
