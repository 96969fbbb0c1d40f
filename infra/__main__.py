"""Synthesizes the CDK app. `cdk.json` runs it as `python -m infra`.

`cdk deploy --all` deploys to a real account, `cdk deploy --all -c stage=local -c databaseUrl=postgresql://... -c
endpoint=http://...` to the local cloud. `infra/context.py` lists the other settings.
"""

import sys
from collections.abc import Mapping
from typing import Any

from aws_cdk import App, CliCredentialsStackSynthesizer, Stack

from infra.context import ContextError, Deployment, stage_of
from infra.data import LocalDatabase, NetworkStack, RdsDatabase, Stage, State, external_services_of
from infra.dependencies import dependency_layer
from infra.packaging import LAMBDA, UNZIPPED_LIMIT, Package, PackagingError, code_layer, local_target, unzipped_size
from infra.pipeline import PipelineStack
from infra.worker_table import WORKERS, WorkerTableError, cap_concurrency, shorten_timeouts

LOCAL_MAXIMUM_CONCURRENCY = 2
"""Maximum concurrency of each queue in the local cloud, where each invocation is a process on the developer's machine.
"""


def new_app(context: Mapping[str, Any] | None = None, folder: str | None = None) -> App:
    """Return an app whose synthesis depends only on the project and `context`."""
    return App(context=context, outdir=folder, analytics_reporting=False, tree_metadata=False, stack_traces=False)


def build(app: App, dependencies: Package) -> None:
    """Add the stacks that the context describes to `app`.

    Raises:
        ContextError: a setting is unknown or invalid.
        WorkerTableError, PackagingError: see `PipelineStack`.
    """
    deployment = Deployment.of(app.node.try_get_context)
    if deployment.stage == "local":
        rows = cap_concurrency(WORKERS, LOCAL_MAXIMUM_CONCURRENCY)
        PipelineStack(
            app,
            "counterfoil-pipeline",
            rows=shorten_timeouts(rows, deployment.timeout) if deployment.timeout else rows,
            stage=Stage(deployment, LocalDatabase(deployment.database_url or ""), None, local_target(), dependencies),
            # The emulator denies the bootstrap roles access to the bootstrap bucket, but permits it to the caller.
            synthesizer=CliCredentialsStackSynthesizer(),
        )
        return
    has_user_pool = deployment.issuer is None
    network = NetworkStack(
        app, "counterfoil-network", external_services=external_services_of(deployment), has_user_pool=has_user_pool
    )
    data = Stack(app, "counterfoil-data", termination_protection=True)
    database = RdsDatabase(data, "Database", network=network)
    stage = Stage(deployment, database, network, LAMBDA, dependencies)
    state = State(data, "State", rows=WORKERS, stage=stage)
    PipelineStack(app, "counterfoil-pipeline", rows=WORKERS, stage=stage, state=state)


def main(context: Mapping[str, Any] | None = None) -> int:
    """Synthesize the app and return the exit code."""
    app = new_app(context)
    try:
        target = local_target() if stage_of(app.node.try_get_context("stage")) == "local" else LAMBDA
        dependencies = dependency_layer(target)
        size = unzipped_size(dependencies, code_layer(target))
        sys.stderr.write(f"Layers: {size / 2**20:.0f} of {UNZIPPED_LIMIT / 2**20:.0f} MB (unzipped, Lambda's limit)\n")
        if size > UNZIPPED_LIMIT:
            raise PackagingError("The layers are too large for Lambda. Remove a dependency or trim more files.")
        build(app, dependencies)
    except (ContextError, PackagingError, WorkerTableError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
