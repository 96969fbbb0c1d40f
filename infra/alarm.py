"""The construct of alarms: from a metric and a sentence to an alarm that tells the topic of its severity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.alarms import NAMESPACE, WATCHES, Scope, Severity, Watch, subjects_of
from infra.workers import Row

RUNBOOK = "docs/operations.md"
SUPPRESSOR_WAIT = Duration.minutes(2)
"""How long an alarm with a grace period waits for the deployment's metric, which CloudWatch shows with a delay."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When an alarm goes off, and how it is called."""

    name: str
    page: str
    """Heading of the runbook, as a link names it."""
    says: str
    severity: Severity
    threshold: float = 0
    periods: int = 1
    datapoints: int = 1
    """How many of the periods have to be above the threshold."""
    silence_counts: bool = False
    grace_minutes: int = 0
    """Time after a deployment during which it notifies no one."""


class Bell:
    """Rings for whoever subscribed: one topic for each severity."""

    def __init__(self, scope: Construct, *, enforce_tls: bool, metric_math: bool) -> None:
        """Create the topics, to which only alarms of this account may publish.

        Without `metric_math`, which the local cloud refuses, alarms that need it and grace periods are omitted.
        """
        self._metric_math = metric_math
        self.graced: list[cloudwatch.CompositeAlarm] = []
        """Alarms with a grace period, to be created after the deployment was counted."""
        self.topics = {severity: self._topic(scope, severity, enforce_tls=enforce_tls) for severity in Severity}

    @staticmethod
    def _topic(scope: Construct, severity: Severity, *, enforce_tls: bool) -> sns.Topic:
        topic = sns.Topic(
            scope, f"{severity.title()}Alarms", topic_name=f"counterfoil-alarms-{severity}", enforce_ssl=enforce_tls
        )
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
        return topic

    def alarm(self, scope: Construct, id_: str, metric: cloudwatch.IMetric, rule: Rule) -> None:
        """Create the alarm `rule` on `metric`."""
        if isinstance(metric, cloudwatch.MathExpression) and not self._metric_math:
            return
        raised: cloudwatch.AlarmBase = cloudwatch.Alarm(
            scope,
            id_,
            alarm_name=f"counterfoil-{rule.name}",
            alarm_description=f"{rule.says} What to do: {RUNBOOK}#{rule.page}",
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
        if rule.grace_minutes and self._metric_math:
            raised = self._after_grace(scope, id_, raised, rule)
        raised.add_alarm_action(actions.SnsAction(self.topics[rule.severity]))

    def _after_grace(
        self, scope: Construct, id_: str, alarm: cloudwatch.AlarmBase, rule: Rule
    ) -> cloudwatch.CompositeAlarm:
        """Create an alarm that follows `alarm` except in the grace period."""
        deployed = cloudwatch.Alarm(
            scope,
            f"{id_}Grace",
            alarm_name=f"grace-counterfoil-{rule.name}",  # not listed among the alarms of the product
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
            scope,
            f"{id_}AfterGrace",
            composite_alarm_name=f"counterfoil-{rule.name}-after-grace",
            alarm_description=f"{rule.says} What to do: {RUNBOOK}#{rule.page}",
            alarm_rule=cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM),
            actions_suppressor=deployed,
            actions_suppressor_wait_period=SUPPRESSOR_WAIT,
            actions_suppressor_extension_period=SUPPRESSOR_WAIT,
        )
        self.graced.append(graced)
        return graced


def watch_over(scope: Construct, rows: Sequence[Row], bell: Bell, thresholds: Mapping[str, float]) -> None:
    """Create every alarm of the table about `rows`, which have queues."""
    for watch in WATCHES:
        subjects = subjects_of(watch, rows)
        for row in subjects:
            threshold = watch.threshold_for(row, thresholds.get(watch.name))
            id_ = "".join(word.capitalize() for word in watch.name.split("-"))
            bell.alarm(
                scope,
                f"{row.logical_name if row else ''}{id_}Alarm",
                _metric(watch, row, rows),
                Rule(
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


def _metric(watch: Watch, row: Row | None, rows: Sequence[Row]) -> cloudwatch.IMetric:
    """What `watch` looks at: one metric, or metric math on several."""
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
