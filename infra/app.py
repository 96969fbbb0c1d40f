"""The CDK app: which stacks there are for which stage.

`cdk deploy --all` deploys to a real account, `cdk deploy --all -c stage=local -c databaseUrl=postgresql://...` to the
local cloud.
"""

from typing import Any

from aws_cdk import App, CliCredentialsStackSynthesizer

from infra.data import DataStack
from infra.database import LocalDatabase
from infra.network import NetworkStack
from infra.packaging import LAMBDA, Package, this_machine
from infra.pipeline import PipelineStack, Stage
from infra.workers import WORKERS, capped

LOCAL_MAXIMUM_CONCURRENCY = 2
"""Invocations at once for each queue of the local cloud, where each is a process of the developer's own machine."""


SETTINGS: dict[str, Any] = {"analytics_reporting": False, "tree_metadata": False, "stack_traces": False}
"""For aws_cdk.App: what a synthesis writes depends on nothing but the project."""


class ContextError(ValueError):
    """The app was called with a context that it does not know. The message says which one it needs."""


def build(app: App, dependencies: Package) -> None:
    """Add the stacks to `app`, as its context says: `stage` (aws or local) and for local `databaseUrl`.

    Raises:
        ContextError: an unknown stage, or no database for the local one.
        WorkerTableError, PackagingError: see `PipelineStack`.
    """
    stage = stage_of(app)
    if stage == "local":
        url = app.node.try_get_context("databaseUrl")
        if not url:
            raise ContextError(
                "The local stage needs its database: add -c databaseUrl=postgresql://user@127.0.0.1:PORT/name"
            )
        PipelineStack(
            app,
            "counterfoil-pipeline",
            rows=capped(WORKERS, LOCAL_MAXIMUM_CONCURRENCY),
            stage=Stage(database=LocalDatabase(url), network=None, target=this_machine(), dependencies=dependencies),
            # The roles of the bootstrap stack are refused its own bucket there; whoever calls the command line is not.
            synthesizer=CliCredentialsStackSynthesizer(),
        )
        return
    protected: dict[str, Any] = {"termination_protection": True}
    network = NetworkStack(app, "counterfoil-network", **protected)
    data = DataStack(app, "counterfoil-data", network=network, **protected)
    PipelineStack(
        app,
        "counterfoil-pipeline",
        rows=WORKERS,
        stage=Stage(database=data.database, network=network, target=LAMBDA, dependencies=dependencies),
        **protected,
    )


def stage_of(app: App) -> str:
    """The stage that the context names: `aws` unless it says otherwise.

    Raises:
        ContextError: neither aws nor local.
    """
    stage = app.node.try_get_context("stage") or "aws"
    if stage not in {"aws", "local"}:
        raise ContextError(f"There is no stage {stage!r}: leave it out for AWS, or say -c stage=local")
    return str(stage)
