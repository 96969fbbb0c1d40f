"""Run the CDK CLI: `up` for a local cloud, `counterfoil cdk` for an AWS account."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import typer

from cli.failures import CloudError
from cli.local import emulator, processes
from cli.local.emulator import ACCOUNT, REGION, Emulator
from cli.local.paths import ROOT, CloudPaths, node, search_path
from cli.local.processes import CloudProcess

COMMAND_LINE = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"

app = typer.Typer(help="Run the CDK CLI for an AWS account.", add_completion=False)


# `allow_interspersed_args=False` passes options after the first word to CDK, including --help.
@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def cdk(context: typer.Context) -> None:
    """Run the CDK CLI for an AWS account.

    All arguments after `cdk` are passed to the CDK CLI.

    Run `counterfoil cdk bootstrap` once, then `counterfoil cdk deploy --all`. The environment must contain AWS
    credentials and a region.
    """
    environment = {**os.environ, "PATH": search_path(), "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1"}
    result = subprocess.run([node(), command_line(), *context.args], env=environment, cwd=ROOT, check=False)
    raise typer.Exit(result.returncode)


def command_line() -> Path:
    """Return the path of the CDK CLI.

    Raises:
        CloudError: the CDK CLI is not installed.
    """
    if not COMMAND_LINE.exists():
        raise CloudError("The CDK CLI is not installed: run 'make setup'.")
    return COMMAND_LINE


SILENCE_SECONDS = 300
"""Maximum time without output. CDK would wait an hour for a custom resource whose function does not start."""
SOURCES = ("functions", "infra", "layers", "migrations", "cdk.json", "package-lock.json", "uv.lock")
"""Files and folders whose changes require a deployment."""
ASSETS_BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
"""Bucket that `cdk bootstrap` would create. The local stage needs no other bootstrap resource."""
_PROGRESS = re.compile(r"^\s*(?P<stack>\S+) \|\s*(?P<done>\d+)/(?P<all>\d+) \|")
_SYNTHESIZED = "Synthesis time:"
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class DeployOptions:
    """Settings of a deployment, in addition to its sources."""

    settings: Mapping[str, str] = field(default_factory=dict)
    timeout: int | None = None


@dataclass(frozen=True)
class Deployment:
    """The last deployment. Times are seconds since the epoch."""

    fingerprint: str
    """Fingerprint of all sources and settings. While it is unchanged, no new deployment is needed."""
    at: float
    seconds: float
    outputs: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Environment variables of every function, in addition to the stack's. They may include a secret."""
    timeout: int | None = None
    """Maximum timeout in seconds of every worker with a queue."""


@dataclass(frozen=True)
class Progress:
    """Callbacks that report a deployment's progress."""

    begin: Callable[[str], None]
    count: Callable[[int, int], None]
    """Receives the finished and the total number of resources."""


def fingerprint(database_url: str, tuning: DeployOptions) -> str:
    """Return a hash of a deployment's sources and settings.

    The hash includes this machine's Python version and platform.
    """
    options = json.dumps([database_url, dict(tuning.settings), tuning.timeout], sort_keys=True)
    digest = hashlib.sha256(f"{sys.version_info[:2]} {sys.platform} {options}\n".encode())
    for path in sorted(_sources()):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for name in SOURCES:
        start = ROOT / name
        for path in [start] if start.is_file() else start.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def deploy(  # a deployment needs all of these values
    paths: CloudPaths, target: Emulator, database_url: str, tuning: DeployOptions, progress: Progress
) -> dict[str, str]:
    """Synthesize the app and deploy it. Return the stacks' outputs.

    Raises:
        CloudError: the deployment failed. The message has the CDK CLI's reason, and the path of its complete output.
    """
    command = [node(), command_line()]
    environment = _environment(paths, target)
    log(paths).parent.mkdir(parents=True, exist_ok=True)
    log(paths).write_text("")
    output_options = ["--output", str(paths.assembly), "--outputs-file", str(paths.outputs)]
    context = ["-c", "stage=local", "-c", f"databaseUrl={database_url}", "-c", f"endpoint={target.endpoint}"]
    if tuning.settings:
        context += ["-c", f"settings={json.dumps(dict(tuning.settings))}"]
    if tuning.timeout is not None:
        context += ["-c", f"timeout={tuning.timeout}"]
    deploy_options = ["--method", "direct", "--require-approval", "never", "--progress", "events"]
    _run(paths, [*command, "deploy", "--all", *context, *output_options, *deploy_options], environment, progress)
    stacks: dict[str, dict[str, str]] = json.loads(paths.outputs.read_text())
    return {name: value for outputs in stacks.values() for name, value in outputs.items()}


def log(paths: CloudPaths) -> Path:
    """Return the path of the file with the CDK CLI's output."""
    return paths.logs / "deploy.log"


def _environment(paths: CloudPaths, target: Emulator) -> dict[str, str]:
    """Return the caller's environment, with AWS settings only for the emulator.

    The caller's own AWS settings are removed, so that CDK cannot reach a real account.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    return {
        **inherited,
        **processes.process_marker(paths.folder, CloudProcess.DEPLOYMENT),
        **target.environment,
        "PATH": search_path(),
        "CDK_HOME": str(paths.temporary / "cdk"),
        "CDK_VALIDATION": "false",  # would take ten seconds, and the tests of `infra` validate the templates
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "NO_COLOR": "1",
    }


def _run(paths: CloudPaths, command: list[str | Path], environment: dict[str, str], progress: Progress) -> None:
    """Run the CDK CLI with its output in the log.

    If this function is interrupted, the CDK CLI is ended.
    """
    start = log(paths).stat().st_size
    with log(paths).open("a") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only this process, and the whole group can be ended
        )
        try:
            _follow(paths, process, progress)
        finally:
            processes.terminate_group(process)
    if process.returncode != 0:
        reason = _reason(log(paths).read_bytes()[start:].decode(errors="replace"))
        raise CloudError(f"The deployment failed: {reason} The complete output is in {log(paths)}.")


def _follow(paths: CloudPaths, process: subprocess.Popen[bytes], progress: Progress) -> None:
    """Wait until `process` ends, and report progress from its log."""
    last_output = time.monotonic()
    with log(paths).open(errors="replace") as output:
        output.seek(0, os.SEEK_END)
        while process.poll() is None:
            for line in output:
                last_output = time.monotonic()
                if _SYNTHESIZED in line:
                    progress.begin("Resources (cdk deploy)")
                if match := _PROGRESS.match(line):
                    progress.count(min(int(match["done"]), int(match["all"])), int(match["all"]))
            if time.monotonic() - last_output > SILENCE_SECONDS:
                raise CloudError(
                    f"The deployment had no output for {SILENCE_SECONDS} s and was ended. The output is in "
                    f"{log(paths)}, the output of functions in {emulator.log(paths)}. To start over: counterfoil down"
                )
            time.sleep(0.1)


def _reason(output: str) -> str:
    """Return the line of the output that states the reason, as a sentence."""
    lines = [line.strip() for line in _TERMINAL_CODES.sub("", output).splitlines() if line.strip()]
    exceptions = [line.partition(": ")[2] for line in lines if re.match(r"[\w.]+(Error|Exception): \S", line)]
    error_lines = [line for line in lines if re.search(r"❌|_FAILED|[Ee]rror", line) and not line.endswith(":")]
    # The app's exception is at the end of its traceback. The CDK CLI's reason is its first error.
    reason = next(iter([*exceptions[-1:], *error_lines, *lines[-1:]]), "no reason was given")
    return f"{reason.lstrip('❌ ').rstrip('.')}."
