"""The stateless stack: workers, schedules, routes and alarms.

Migrations run first.
"""

from collections.abc import Sequence
from dataclasses import asdict

from aws_cdk import Annotations, Aws, Duration, IStackSynthesizer, Stack, TimeZone, triggers
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as scheduler_targets
from aws_cdk import aws_ses as ses
from aws_cdk import aws_ses_actions as ses_actions
from constructs import Construct

from infra import packaging
from infra.alarms import Alarms
from infra.api import Routes
from infra.data import INBOX, RETRY_SUFFIX, RULE, RULE_SET, Queues, Stage, State, output
from infra.packaging import Package
from infra.worker import Worker, WorkerResources
from infra.worker_table import Trigger, WorkerSpec, queue_workers, validate, workers_with_dependency

SCHEDULES = {
    "minute": scheduler.ScheduleExpression.rate(Duration.minutes(1)),
    # One minute past the hour, because a clock may be slow.
    "hour": scheduler.ScheduleExpression.cron(minute="1", time_zone=TimeZone.ETC_UTC),
}


class Schedules(Construct):
    """Schedules of the workers that run at intervals."""

    def __init__(self, scope: Construct, id_: str, *, workers: Sequence[Worker]) -> None:
        """Create a schedule for each scheduled worker."""
        super().__init__(scope, id_)
        for worker in workers:
            if worker.row.trigger is not Trigger.SCHEDULE:
                continue
            scheduler.Schedule(
                self,
                worker.row.logical_name,
                schedule_name=worker.row.resource_name,
                description=worker.row.description,
                schedule=SCHEDULES[worker.row.every],
                target=scheduler_targets.LambdaInvoke(worker.function, retry_attempts=0),
            )


class InboundMail(Construct):
    """The SES rule that stores all mail for a domain in the uploads bucket.

    CloudFormation creates the rule set, but cannot activate it for the account. An operator must activate it once,
    after the domain is verified and its MX record points to SES. See docs/acquisition.md.
    """

    def __init__(self, scope: Construct, id_: str, *, domain: str, bucket: s3.IBucket) -> None:
        """Create the rule.

        It stores mail for every address at `domain` under INBOX in `bucket`.
        """
        super().__init__(scope, id_)
        # The bucket is imported. Otherwise the action would grant access to every rule in the account. The bucket
        # policy in infra/data.py grants access only to this rule.
        imported = s3.Bucket.from_bucket_name(self, "Store", bucket.bucket_name)
        rule = ses.ReceiptRuleSet(self, "Rules", receipt_rule_set_name=RULE_SET).add_rule(
            "Rule",
            receipt_rule_name=RULE,
            recipients=[domain],
            scan_enabled=True,  # acquisition reads the verdicts
            # Otherwise SES would silently reject mail from servers without TLS.
            tls_policy=ses.TlsPolicy.OPTIONAL,
            actions=[ses_actions.S3(bucket=imported, object_key_prefix=INBOX)],
        )
        Annotations.of(rule).acknowledge_warning("@aws-cdk/s3:AddBucketPermissions")
        # The value of the domain's MX record.
        output(self, "MailExchanger", f"10 inbound-smtp.{Aws.REGION}.amazonaws.com")


class PipelineStack(Stack):
    """Workers, queues, schedules, routes and alarms from the worker table."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        rows: Sequence[WorkerSpec],
        stage: Stage,
        state: State | None = None,
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        """Create the stack. If `state` is None, create the state in this stack too.

        Raises:
            WorkerTableError: a row could lose work items.
            PackagingError: a function's code is missing.
        """
        super().__init__(scope, id_, termination_protection=stage.is_aws, synthesizer=synthesizer)
        validate(rows)
        self._stage = stage
        self.state = state or State(self, "State", rows=rows, stage=stage)
        self.queues = {
            row.name: self.state.queues.get(row.name) or Queues(self, row, rows=rows, enforce_tls=stage.is_aws)
            for row in queue_workers(rows)
        }
        shared = WorkerResources(tuple(rows), stage, self.state, self.queues, self._layers())
        self.workers = {row.name: Worker(self, row, self._code(row), shared) for row in rows}
        workers = list(self.workers.values())
        alarms = Alarms(self, "Alarms", shared=shared, workers=workers)
        Schedules(self, "Schedules", workers=workers)
        self._name_mappings(rows)
        self._serve()
        self._migrate_first(alarms)
        if stage.deployment.mail_domain is not None:
            InboundMail(self, "Inbox", domain=stage.deployment.mail_domain, bucket=self.state.uploads)
        for worker in workers:
            output(self, f"{worker.row.logical_name}FunctionName", worker.function.function_name)

    def _name_mappings(self, rows: Sequence[WorkerSpec]) -> None:
        """Pass mapping ids and queue settings to the functions that pause queues."""
        queues = {
            row.name: {
                "urls": [queue.queue_url for queue in self.queues[row.name].sources],
                "mappings": [mapping.event_source_mapping_id for mapping in self.workers[row.name].mappings],
                "limit": row.concurrency_limit,
            }
            for row in queue_workers(rows)
        }
        ids = {
            f"{row.name}{suffix}": mapping.event_source_mapping_id
            for row in workers_with_dependency(rows)
            for suffix, mapping in zip(("", RETRY_SUFFIX), self.workers[row.name].mappings, strict=False)
        }
        for worker in self.workers.values():
            if not worker.row.pauses_mappings:
                continue
            worker.grant_pause([mapping for row in queue_workers(rows) for mapping in self.workers[row.name].mappings])
            worker.function.add_environment("QUEUES", self.to_json_string(queues))
            if ids and worker.row.trigger is Trigger.SCHEDULE:
                worker.function.add_environment("MAPPINGS", self.to_json_string(ids))

    def _layers(self) -> list[lambda_.LayerVersion]:
        packages = {"Dependencies": self._stage.dependencies, "Code": packaging.code_layer(self._stage.target)}
        return [
            lambda_.LayerVersion(
                self,
                f"{name}Layer",
                layer_version_name=f"counterfoil-{name.lower()}",
                code=lambda_code(package),
                compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            )
            for name, package in packages.items()
        ]

    def _code(self, row: WorkerSpec) -> lambda_.Code:
        return lambda_code(packaging.function(row.name, row.extra_files, self._stage.target))

    def _serve(self) -> None:
        """Connect the gateway to its function, and set the console's URL.

        Functions that send notifications get the console's URL. The gateway's function gets the settings for signing in
        and uploading.
        """
        api, uploads = self.state.api, self.state.uploads
        for worker in self.workers.values():
            if worker.row.trigger is Trigger.HTTP_API:
                Routes(self, "Routes", api=api, function=worker.function)
                worker.function.add_environment("OIDC", self.to_json_string(asdict(api.sign_in)))
                if self._stage.is_aws:
                    # Upload forms are posted to the global endpoint, which redirects requests for a new bucket to its
                    # region.
                    names = (uploads.bucket_domain_name, uploads.bucket_regional_domain_name)
                    origins = self.to_json_string([f"https://{name}" for name in names])
                    worker.function.add_environment("UPLOAD_ORIGINS", origins)
            if "notifications" in worker.row.external_services:
                worker.function.add_environment("CONSOLE_URL", api.console)

    def _migrate_first(self, alarms: Alarms) -> None:
        """Run migrations before the code of any other function is updated.

        Alarms with a grace period are created after the migration, which counts the deployment.
        """
        migrators = [worker for worker in self.workers.values() if worker.row.trigger is Trigger.DEPLOYMENT]
        others = [worker.function for worker in self.workers.values() if worker not in migrators]
        for worker in migrators:
            triggers.Trigger(
                self,
                f"{worker.row.logical_name}Trigger",
                handler=worker.function,
                timeout=Duration.seconds(worker.row.timeout),
                execute_before=[*others, *alarms.grace_alarms],
            )


def lambda_code(package: Package) -> lambda_.Code:
    """Return a package as a CDK asset, named after the hash of its input.

    By default, the CDK hashes the zip file instead.
    """
    return lambda_.Code.from_asset(str(package.path), asset_hash=package.hash)
