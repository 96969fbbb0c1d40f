"""The network: private subnets without a way to the internet, and endpoints for the services that functions call."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.workers import Row

SUBNETS = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)


class NetworkStack(Stack):
    """VPC, subnets in two availability zones, endpoints, and the security groups of the functions.

    Lambda itself carries a function's logs to CloudWatch, so that no endpoint is needed for them.
    """

    def __init__(self, scope: Construct, id_: str, **stack: Any) -> None:
        """Create the stack; `stack` is what aws_cdk.Stack takes."""
        super().__init__(scope, id_, **stack)
        private = ec2.SubnetConfiguration(name="private", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20)
        self.vpc = ec2.Vpc(self, "Vpc", max_azs=2, nat_gateways=0, subnet_configuration=[private])
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        for name, service in {
            "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
            "SecretsManager": ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
        }.items():
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
