"""Synthesises the CDK app: `python -m infra`, which is what `cdk.json` has the CDK command line run."""

import sys

from aws_cdk import App

from infra.app import SETTINGS, build
from infra.context import ContextError, stage_of
from infra.dependencies import dependency_layer
from infra.faults import WorkerTableError
from infra.packaging import LAMBDA, UNZIPPED_LIMIT, PackagingError, code_layer, this_machine, unzipped_size


def main() -> int:
    """Synthesise. Returns the exit code."""
    app = App(**SETTINGS)
    try:
        target = this_machine() if stage_of(app.node.try_get_context("stage")) == "local" else LAMBDA
        dependencies = dependency_layer(target)
        size = unzipped_size(dependencies, code_layer(target))
        sys.stderr.write(f"Layers: {size / 2**20:.0f} MB unzipped, of {UNZIPPED_LIMIT / 2**20:.0f} that Lambda takes\n")
        if size > UNZIPPED_LIMIT:
            raise PackagingError("The layers are too large for Lambda: take a dependency out, or trim more of it.")
        build(app, dependencies)
    except (ContextError, PackagingError, WorkerTableError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
