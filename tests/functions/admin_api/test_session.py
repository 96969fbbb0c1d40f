"""Signing in to the console: the module as browsers get it, tried by Node."""

import os
import subprocess
from pathlib import Path

from cli import cdk

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "functions" / "admin_api" / "pages" / "session.js"
TESTS = Path(__file__).parent / "pages" / "session.test.mjs"
SERVED_AT = "https://api.example.com/console/assets/app.js"


def test_only_answers_that_belong_to_the_sign_in_sign_somebody_in(tmp_path: Path) -> None:
    bundled = tmp_path / "session.mjs"
    environment = {**os.environ, "PATH": cdk.search_path(), "SESSION_MODULE": bundled.as_uri()}
    options = ["--bundle", "--format=esm", f'--define:import.meta.url="{SERVED_AT}"', "--log-level=warning"]
    subprocess.run(
        [ROOT / "node_modules" / ".bin" / "esbuild", *options, f"--outfile={bundled}", MODULE],
        env=environment,
        check=True,
    )

    done = subprocess.run([cdk.node(), "--test", TESTS], env=environment, text=True, capture_output=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass 15\n" in done.stdout
