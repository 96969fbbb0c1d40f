"""Modules of the console as browsers get them, tried by Node."""

import os
import re
import subprocess
from pathlib import Path

from cli.local.place import node, search_path

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "functions" / "admin_api" / "pages"
TESTS = Path(__file__).parent / "pages"
SERVED_AT = "https://api.example.com/console/assets/app.js"


def passed(tests: str, folder: Path, **modules: str) -> int:
    """How many tests of a file there are, which all pass. `modules`: each by the variable that the tests find it by."""
    found = {variable: (folder / f"{Path(module).name}.mjs").as_uri() for variable, module in modules.items()}
    environment = {**os.environ, "PATH": search_path(), **found}
    options = ["--bundle", "--format=esm", "--out-extension:.js=.mjs", "--entry-names=[name]", "--log-level=warning"]
    subprocess.run(
        [
            ROOT / "node_modules" / ".bin" / "esbuild",
            *options,
            f'--define:import.meta.url="{SERVED_AT}"',
            f"--outdir={folder}",
            *(PAGES / f"{module}.js" for module in modules.values()),
        ],
        env=environment,
        check=True,
    )
    done = subprocess.run(
        [node(), "--test", TESTS / f"{tests}.test.mjs"],
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (count,) = re.findall(r"^\S+ pass (\d+)$", done.stdout, re.MULTILINE)
    return int(count)
