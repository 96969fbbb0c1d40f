"""CDK constructs for the alarms and their SNS topics."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.alarm_table import ALARMS, NAMESPACE, THRESHOLDS, AlarmSpec, Scope, Severity, alarm_targets
from infra.data import output
from infra.worker import Worker, WorkerResources
from infra.worker_table import Alarm, WorkerSpec, queue_workers

RUNBOOK = "docs/runbook"
SUPPRESSOR_WAIT = Duration.minutes(2)
"""Time that an alarm with a grace period waits for its suppressor, because CloudWatch delays metrics."""


@dataclass(frozen=True, kw_only=True)
class AlarmDefinition:
    """Condition and name of an alarm."""

    name: str
    page: str
    """Name of the runbook page."""
    summary: str
    severity: Severity = Severity.WARNING
    threshold: float = 0
    periods: int = 1
    datapoints: int = 1
    """Number of periods that must exceed the threshold."""
    silence_counts: bool = False
    grace_minutes: int = 0
    """Minutes without notifications after a deployment."""

    @property
    def description(self) -> str:
        """Description for CloudWatch, with the path of the runbook page."""
        return f"{self.summary} What to do: {RUNBOOK}/{self.page}.md"


class AlarmTopics(Construct):
    """One topic per severity, to which only alarms of this account may publish."""

    def __init__(self, scope: Construct, id_: str, *, enforce_tls: bool) -> None:
        """Create the topics."""
        super().__init__(scope, id_)
        self.by_severity = {severity: self._topic(severity, enforce_tls=enforce_tls) for severity in Severity}

    def _topic(self, severity: Severity, *, enforce_tls: bool) -> sns.Topic:
        topic = sns.Topic(self, severity.title(), topic_name=f"counterfoil-alarms-{severity}", enforce_ssl=enforce_tls)
        alarms = f"arn:{Aws.PARTITION}:cloudwatch:{Aws.REGION}:{Aws.ACCOUNT_ID}:alarm:counterfoil-*"
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={
                    "ArnLike": {"aws:SourceArn": alarms},
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                },
            )
        )
        output(self, f"{severity.title()}AlarmsTopicArn", topic.topic_arn)
        return topic


class Alarms(Construct):
    """All alarms from the alarm table and the workers' rows."""

    def __init__(self, scope: Construct, id_: str, *, shared: WorkerResources, workers: Sequence[Worker]) -> None:
        """Create the topics and the alarms.

        In the local cloud, which rejects metric math, alarms with metric math and grace periods are omitted.
        """
        super().__init__(scope, id_)
        self._shared = shared
        self._topics = AlarmTopics(self, "Topics", enforce_tls=shared.stage.is_aws)
        self.grace_alarms: list[cloudwatch.CompositeAlarm] = []
        """Alarms with a grace period. They must be created after `migrate` has counted the deployment."""
        for spec in ALARMS:
            self._create_table_alarm(spec, queue_workers(shared.rows))
        for worker in workers:
            for alarm in worker.row.alarms:
                self._create_worker_alarm(worker, alarm)

    def _create_table_alarm(self, spec: AlarmSpec, rows: Sequence[WorkerSpec]) -> None:
        for row in alarm_targets(spec, rows):
            threshold = spec.threshold_for(row, self._shared.stage.thresholds.get(spec.name))
            self._create_alarm(
                f"{row.logical_name if row else ''}{_logical_id(spec.name)}",
                _metric(spec, row, rows),
                AlarmDefinition(
                    name=f"{row.name}-{spec.name}" if row else spec.name,
                    page=spec.name,
                    summary=spec.summary.format(worker=row.name if row else "", threshold=f"{threshold:g}"),
                    severity=spec.severity,
                    threshold=threshold,
                    periods=spec.periods,
                    datapoints=spec.periods,
                    silence_counts=spec.silence_counts,
                    grace_minutes=spec.grace_minutes,
                ),
            )

    def _create_worker_alarm(self, worker: Worker, alarm: Alarm) -> None:
        row, minute = worker.row, Duration.minutes(1)
        name, page = f"{row.name}-{alarm}", row.runbook_page(alarm)
        metric: cloudwatch.IMetric
        if alarm is Alarm.DEAD_LETTERS:
            queue = self._shared.queues[row.name].dead_letters
            # A received message is invisible for minutes, so counting only visible messages would miss stuck messages.
            parts: dict[str, cloudwatch.IMetric] = {
                "visible": queue.metric_approximate_number_of_messages_visible(period=minute, statistic="Maximum"),
                "hidden": queue.metric_approximate_number_of_messages_not_visible(period=minute, statistic="Maximum"),
            }
            metric = cloudwatch.MathExpression(
                expression="visible + hidden", using_metrics=parts, period=minute, label=name
            )
            summary = f"Messages stay in {row.resource_name}-dlq."
            definition = AlarmDefinition(name=name, page=page, summary=summary, periods=15, datapoints=12)
        elif alarm is Alarm.MESSAGE_AGE:
            threshold = self._shared.stage.thresholds.get("oldest-pending", THRESHOLDS["oldest-pending"])
            metric = self._shared.queues[row.name].source.metric_approximate_age_of_oldest_message(
                period=minute, statistic="Maximum"
            )
            summary = f"A message has been in the {row.name} queue for more than {threshold:g} s."
            definition = AlarmDefinition(
                name=name, page=page, summary=summary, threshold=threshold, periods=5, datapoints=3
            )
        else:
            metric = worker.function.metric_errors(period=minute, statistic="Sum")
            summary = f"Invocations of {row.resource_name} are failing."
            periods, datapoints = (
                (1, 1) if row.every == "hour" else (5, 3)
            )  # a single failed hourly invocation fires the alarm
            definition = AlarmDefinition(
                name=name,
                page=page,
                summary=summary,
                severity=Severity.CRITICAL,
                periods=periods,
                datapoints=datapoints,
            )
        self._create_alarm(f"{row.logical_name}{_logical_id(alarm)}", metric, definition)

    def _create_alarm(self, id_: str, metric: cloudwatch.IMetric, definition: AlarmDefinition) -> None:
        if isinstance(metric, cloudwatch.MathExpression) and not self._shared.stage.is_aws:
            return
        alarm: cloudwatch.AlarmBase = cloudwatch.Alarm(
            self,
            id_,
            alarm_name=f"counterfoil-{definition.name}",
            alarm_description=definition.description,
            metric=metric,
            threshold=definition.threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=definition.periods,
            datapoints_to_alarm=definition.datapoints,
            treat_missing_data=(
                cloudwatch.TreatMissingData.BREACHING
                if definition.silence_counts
                else cloudwatch.TreatMissingData.NOT_BREACHING
            ),
        )
        if definition.grace_minutes and self._shared.stage.is_aws:
            alarm = self._after_grace(id_, alarm, definition)
        alarm.add_alarm_action(actions.SnsAction(self._topics.by_severity[definition.severity]))

    def _after_grace(
        self, id_: str, alarm: cloudwatch.AlarmBase, definition: AlarmDefinition
    ) -> cloudwatch.CompositeAlarm:
        """Create a composite alarm that follows `alarm` outside of grace periods.

        A grace period begins with each deployment.
        """
        suppressor = cloudwatch.Alarm(
            self,
            f"{id_}Grace",
            # Without ALARM_PREFIX, because Counterfoil must not list this alarm.
            alarm_name=f"grace-counterfoil-{definition.name}",
            alarm_description=(
                f"Suppresses counterfoil-{definition.name} for {definition.grace_minutes} minutes after a deployment."
            ),
            metric=cloudwatch.Metric(
                namespace=NAMESPACE, metric_name="Deployments", statistic="Sum", period=Duration.minutes(1)
            ),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=definition.grace_minutes,
            datapoints_to_alarm=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        composite = cloudwatch.CompositeAlarm(
            self,
            f"{id_}AfterGrace",
            composite_alarm_name=f"counterfoil-{definition.name}-after-grace",
            alarm_description=definition.description,
            alarm_rule=cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM),
            actions_suppressor=suppressor,
            actions_suppressor_wait_period=SUPPRESSOR_WAIT,
            actions_suppressor_extension_period=SUPPRESSOR_WAIT,
        )
        self.grace_alarms.append(composite)
        return composite


def _logical_id(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _metric(spec: AlarmSpec, row: WorkerSpec | None, rows: Sequence[WorkerSpec]) -> cloudwatch.IMetric:
    """Return the metric of `spec`, or metric math on several metrics."""
    period = Duration.minutes(spec.minutes)

    def make_metric(name: str, worker: str | None) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"worker": worker} if worker else None,
            statistic=spec.statistic,
            period=period,
        )

    if spec.scope is Scope.SUM:
        (name,) = spec.metrics
        parts: dict[str, cloudwatch.IMetric] = {other.name: make_metric(name, other.name) for other in rows}
        total = f"SUM([{', '.join(parts)}])"
        return cloudwatch.MathExpression(
            expression=spec.expression.replace("m0", total), using_metrics=parts, period=period, label=spec.name
        )
    metrics = [make_metric(name, row.name if row else None) for name in spec.metrics]
    if spec.expression == "m0":
        return metrics[0]
    return cloudwatch.MathExpression(
        expression=spec.expression,
        using_metrics={f"m{number}": metric for number, metric in enumerate(metrics)},
        period=period,
        label=spec.name,
    )
