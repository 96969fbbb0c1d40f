"""CDK constructs of the alarms and their SNS topics."""

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
"""How long an alarm with a grace period waits for its suppressor, because CloudWatch publishes metrics with a delay."""


@dataclass(frozen=True, kw_only=True)
class AlarmDefinition:
    """Condition and name of an alarm."""

    name: str
    page: str
    """Name of the runbook page."""
    says: str
    severity: Severity = Severity.WARNING
    threshold: float = 0
    periods: int = 1
    datapoints: int = 1
    """Number of periods that must exceed the threshold."""
    silence_counts: bool = False
    grace_minutes: int = 0
    """Time without notifications after a deployment."""

    @property
    def description(self) -> str:
        """Alarm description with the path of its runbook page."""
        return f"{self.says} What to do: {RUNBOOK}/{self.page}.md"


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
    """All alarms of the alarm table and of the workers' rows."""

    def __init__(self, scope: Construct, id_: str, *, around: WorkerResources, workers: Sequence[Worker]) -> None:
        """Create the topics and the alarms.

        In the local cloud, which rejects metric math, alarms with metric math and grace periods are omitted.
        """
        super().__init__(scope, id_)
        self._around = around
        self._topics = AlarmTopics(self, "Topics", enforce_tls=around.stage.is_aws)
        self.graced: list[cloudwatch.CompositeAlarm] = []
        """Alarms with a grace period. They must be created after `migrate` has counted the deployment."""
        for watch in ALARMS:
            self._watch(watch, queue_workers(around.rows))
        for worker in workers:
            for alarm in worker.row.alarms:
                self._of_worker(worker, alarm)

    def _watch(self, watch: AlarmSpec, rows: Sequence[WorkerSpec]) -> None:
        for row in alarm_targets(watch, rows):
            threshold = watch.threshold_for(row, self._around.stage.thresholds.get(watch.name))
            self._alarm(
                f"{row.logical_name if row else ''}{_id(watch.name)}",
                _metric(watch, row, rows),
                AlarmDefinition(
                    name=f"{row.name}-{watch.name}" if row else watch.name,
                    page=watch.name,
                    says=watch.says.format(worker=row.name if row else "", threshold=f"{threshold:g}"),
                    severity=watch.severity,
                    threshold=threshold,
                    periods=watch.periods,
                    datapoints=watch.periods,
                    silence_counts=watch.silence_counts,
                    grace_minutes=watch.grace_minutes,
                ),
            )

    def _of_worker(self, worker: Worker, alarm: Alarm) -> None:
        row, minute = worker.row, Duration.minutes(1)
        name, page = f"{row.name}-{alarm}", row.runbook_page(alarm)
        metric: cloudwatch.IMetric
        if alarm is Alarm.DEAD_LETTERS:
            queue = self._around.queues[row.name].dead_letters
            # A received message is invisible for minutes, so visible messages alone would hide one that stays.
            parts: dict[str, cloudwatch.IMetric] = {
                "visible": queue.metric_approximate_number_of_messages_visible(period=minute, statistic="Maximum"),
                "hidden": queue.metric_approximate_number_of_messages_not_visible(period=minute, statistic="Maximum"),
            }
            metric = cloudwatch.MathExpression(
                expression="visible + hidden", using_metrics=parts, period=minute, label=name
            )
            says = f"Messages stay in {row.resource_name}-dlq."
            rule = AlarmDefinition(name=name, page=page, says=says, periods=15, datapoints=12)
        elif alarm is Alarm.MESSAGE_AGE:
            threshold = self._around.stage.thresholds.get("oldest-pending", THRESHOLDS["oldest-pending"])
            metric = self._around.queues[row.name].source.metric_approximate_age_of_oldest_message(
                period=minute, statistic="Maximum"
            )
            says = f"A message has been in the queue of {row.name} for more than {threshold:g} s."
            rule = AlarmDefinition(name=name, page=page, says=says, threshold=threshold, periods=5, datapoints=3)
        else:
            metric = worker.function.metric_errors(period=minute, statistic="Sum")
            says = f"Invocations of {row.resource_name} fail."
            periods, datapoints = (1, 1) if row.every == "hour" else (5, 3)  # one failed hourly invocation is enough
            rule = AlarmDefinition(
                name=name,
                page=page,
                says=says,
                severity=Severity.CRITICAL,
                periods=periods,
                datapoints=datapoints,
            )
        self._alarm(f"{row.logical_name}{_id(alarm)}", metric, rule)

    def _alarm(self, id_: str, metric: cloudwatch.IMetric, rule: AlarmDefinition) -> None:
        if isinstance(metric, cloudwatch.MathExpression) and not self._around.stage.is_aws:
            return
        raised: cloudwatch.AlarmBase = cloudwatch.Alarm(
            self,
            id_,
            alarm_name=f"counterfoil-{rule.name}",
            alarm_description=rule.description,
            metric=metric,
            threshold=rule.threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=rule.periods,
            datapoints_to_alarm=rule.datapoints,
            treat_missing_data=(
                cloudwatch.TreatMissingData.BREACHING
                if rule.silence_counts
                else cloudwatch.TreatMissingData.NOT_BREACHING
            ),
        )
        if rule.grace_minutes and self._around.stage.is_aws:
            raised = self._after_grace(id_, raised, rule)
        raised.add_alarm_action(actions.SnsAction(self._topics.by_severity[rule.severity]))

    def _after_grace(self, id_: str, alarm: cloudwatch.AlarmBase, rule: AlarmDefinition) -> cloudwatch.CompositeAlarm:
        """Create a composite alarm that follows `alarm`, except during the grace period after a deployment."""
        deployed = cloudwatch.Alarm(
            self,
            f"{id_}Grace",
            alarm_name=f"grace-counterfoil-{rule.name}",  # without the prefix by which the product lists its alarms
            alarm_description=f"Suppresses counterfoil-{rule.name} for {rule.grace_minutes} minutes.",
            metric=cloudwatch.Metric(
                namespace=NAMESPACE, metric_name="Deployments", statistic="Sum", period=Duration.minutes(1)
            ),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=rule.grace_minutes,
            datapoints_to_alarm=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        graced = cloudwatch.CompositeAlarm(
            self,
            f"{id_}AfterGrace",
            composite_alarm_name=f"counterfoil-{rule.name}-after-grace",
            alarm_description=rule.description,
            alarm_rule=cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM),
            actions_suppressor=deployed,
            actions_suppressor_wait_period=SUPPRESSOR_WAIT,
            actions_suppressor_extension_period=SUPPRESSOR_WAIT,
        )
        self.graced.append(graced)
        return graced


def _id(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _metric(watch: AlarmSpec, row: WorkerSpec | None, rows: Sequence[WorkerSpec]) -> cloudwatch.IMetric:
    """Return the metric of `watch`, or metric math on several metrics."""
    period = Duration.minutes(watch.minutes)

    def one(name: str, worker: str | None) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"worker": worker} if worker else None,
            statistic=watch.statistic,
            period=period,
        )

    if watch.scope is Scope.SUM:
        (name,) = watch.metrics
        parts: dict[str, cloudwatch.IMetric] = {other.name: one(name, other.name) for other in rows}
        total = f"SUM([{', '.join(parts)}])"
        return cloudwatch.MathExpression(
            expression=watch.expression.replace("m0", total), using_metrics=parts, period=period, label=watch.name
        )
    found = [one(name, row.name if row else None) for name in watch.metrics]
    if watch.expression == "m0":
        return found[0]
    return cloudwatch.MathExpression(
        expression=watch.expression,
        using_metrics={f"m{number}": metric for number, metric in enumerate(found)},
        period=period,
        label=watch.name,
    )
