"""`counterfoil cdk` runs the CDK CLI."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.local import deployment
from cli.local.paths import ROOT

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).parent / "counterfoil"
needs_cdk = pytest.mark.skipif(not deployment.COMMAND_LINE.exists(), reason="npm ci has not run")


@needs_cdk
def test_cdk_runs_the_locked_version_with_options():
    done = subprocess.run([COMMAND, "cdk", "--version"], capture_output=True, text=True, check=True)

    locked = (ROOT / "package.json").read_text()
    assert f'"{done.stdout.split()[0]}"' in locked


@needs_cdk
def test_cdk_exit_code_is_returned():
    done = subprocess.run([COMMAND, "cdk", "no-such-command"], capture_output=True, check=False)

    assert done.returncode == 1
