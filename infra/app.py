"""The CDK app: which stacks there are for which stage.

`cdk deploy --all` deploys to a real account, `cdk deploy --all -c stage=local -c databaseUrl=postgresql://... -c
endpoint=http://...` to the local cloud. `infra/context.py` lists what else can be said.
"""

from typing import Any

from aws_cdk import App, CliCredentialsStackSynthesizer

from infra.context import Deployment
from infra.data import DataStack, LocalDatabase
from infra.inventory import INVENTORY_THRESHOLDS
from infra.network import NetworkStack
from infra.outside import Outside
from infra.packaging import LAMBDA, Package, this_machine
from infra.pipeline import PipelineStack, Stage
from infra.workers import WORKERS, capped, shortened

LOCAL_MAXIMUM_CONCURRENCY = 2
"""Invocations at once for each queue of the local cloud, where each is a process of the developer's own machine."""
LOCAL_SETTINGS = {"WEBHOOK_ALLOWLIST": '["127.0.0.0/8", "::1/128"]'}
"""Of the local cloud, unless it is told otherwise: results may be delivered to receivers on the same machine."""

SETTINGS: dict[str, Any] = {"analytics_reporting": False, "tree_metadata": False, "stack_traces": False}
"""For aws_cdk.App: what a synthesis writes depends on nothing but the project."""


def build(app: App, dependencies: Package) -> None:
    """Add the stacks to `app`, as its context says.

    Raises:
        ContextError: the context asks for something that there is not.
        WorkerTableError, PackagingError: see `PipelineStack`.
    """
    wanted = Deployment.of(app.node.try_get_context)
    local = wanted.stage == "local"
    outside = Outside(wanted.settings, slack=wanted.slack, webhooks=wanted.webhooks or local)
    asked_for: dict[str, Any] = {
        "dependencies": dependencies,
        "outside": outside,
        "settings": {**LOCAL_SETTINGS, **wanted.settings} if local else wanted.settings,
        "thresholds": {**(INVENTORY_THRESHOLDS if wanted.inventory else {}), **wanted.alarms},
        "retention": wanted.retention,
        "inventory": wanted.inventory,
        "secret_arn": wanted.secret_arn,
        "mail_domain": wanted.mail_domain,
        "issuer": wanted.issuer,
        "endpoint": wanted.endpoint,
    }
    if local:
        rows = capped(WORKERS, LOCAL_MAXIMUM_CONCURRENCY)
        PipelineStack(
            app,
            "counterfoil-pipeline",
            rows=shortened(rows, wanted.timeout) if wanted.timeout else rows,
            stage=Stage(
                database=LocalDatabase(wanted.database_url or ""), network=None, target=this_machine(), **asked_for
            ),
            # The roles of the bootstrap stack are refused its own bucket there; whoever calls the command line is not.
            synthesizer=CliCredentialsStackSynthesizer(),
        )
        return
    protected: dict[str, Any] = {"termination_protection": True}
    network = NetworkStack(app, "counterfoil-network", outside=outside, **protected)
    data = DataStack(app, "counterfoil-data", network=network, **protected)
    PipelineStack(
        app,
        "counterfoil-pipeline",
        rows=WORKERS,
        stage=Stage(database=data.database, network=network, target=LAMBDA, **asked_for),
        **protected,
    )
