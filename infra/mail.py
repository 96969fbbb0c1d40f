"""Mail on AWS: Amazon SES receives it for a domain and stores it, as it came, in the uploads bucket.

CloudFormation makes the set of rules, and cannot make it the account's active one: a person does, once, after the
domain is verified and its MX record leads to SES. docs/acquisition.md says how.
"""

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ses as ses
from constructs import Construct

INBOX = "inbox/"
RULE_SET = "counterfoil"
RULE = "inbox"


class Inbox(Construct):
    """The rule that stores every mail for a domain, and the leave for SES to do so."""

    def __init__(self, scope: Construct, id_: str, *, domain: str, bucket: s3.Bucket) -> None:
        """Store the mail for every address at `domain` under INBOX of `bucket`."""
        super().__init__(scope, id_)
        self.exchanger = f"10 inbound-smtp.{Aws.REGION}.amazonaws.com"
        """What the domain's MX record must say."""
        rule = f"arn:{Aws.PARTITION}:ses:{Aws.REGION}:{Aws.ACCOUNT_ID}:receipt-rule-set/{RULE_SET}:receipt-rule/{RULE}"
        allowed = bucket.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("ses.amazonaws.com")],
                actions=["s3:PutObject"],
                resources=[bucket.arn_for_objects(f"{INBOX}*")],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID, "aws:SourceArn": rule}},
            )
        )
        rules = ses.CfnReceiptRuleSet(self, "Rules", rule_set_name=RULE_SET)
        stored = ses.CfnReceiptRule(
            self,
            "Rule",
            rule_set_name=RULE_SET,
            rule=ses.CfnReceiptRule.RuleProperty(
                name=RULE,
                enabled=True,
                recipients=[domain],
                # The verdicts that acquisition reads.
                scan_enabled=True,
                # A supplier's server that knows no TLS would be refused without anybody here hearing of it.
                tls_policy="Optional",
                actions=[
                    ses.CfnReceiptRule.ActionProperty(
                        s3_action=ses.CfnReceiptRule.S3ActionProperty(
                            bucket_name=bucket.bucket_name, object_key_prefix=INBOX
                        )
                    )
                ],
            ),
        )
        stored.node.add_dependency(rules)
        # SES tries at once whether it may store mail there.
        if allowed.policy_dependable is not None:
            stored.node.add_dependency(allowed.policy_dependable)
