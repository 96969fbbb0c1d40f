"""Run the console's JavaScript tests in Node, with modules bundled for browsers."""

import os
import re
import subprocess
from pathlib import Path

from cli.local.paths import node, search_path

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "functions" / "admin_api" / "pages"
TESTS = Path(__file__).parent / "pages"
SERVED_AT = "https://api.example.com/console/assets/app.js"


def run_tests(tests: str, folder: Path, **modules: str) -> int:
    """Run a test file, assert that all tests pass, and return their number.

    `modules` maps names of environment variables to console modules. The variables contain the modules'
    URLs, from which the tests import them.
    """
    module_urls = {variable: (folder / f"{Path(module).name}.mjs").as_uri() for variable, module in modules.items()}
    environment = {**os.environ, "PATH": search_path(), **module_urls}
    names = ["--out-extension:.js=.mjs", "--entry-names=[name]"]
    options = ["--bundle", "--splitting", "--format=esm", *names, "--log-level=warning"]
    subprocess.run(
        [
            ROOT / "node_modules" / ".bin" / "esbuild",
            *options,
            f'--define:import.meta.url="{SERVED_AT}"',
            f"--outdir={folder}",
            *(PAGES / module for module in modules.values()),
        ],
        env=environment,
        check=True,
    )
    completed = subprocess.run(
        [node(), "--test", TESTS / f"{tests}.test.mjs"],
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    (count,) = re.findall(r"^\S+ pass (\d+)$", completed.stdout, re.MULTILINE)
    return int(count)
