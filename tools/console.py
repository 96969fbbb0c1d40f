"""Generate, check and format the console's TypeScript.

Run `python -m tools.console types|lint|format`. `types` writes the types of the API's requests and responses from the
OpenAPI description. `lint` fails if they are outdated, and runs the TypeScript compiler and Biome.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cli.local.paths import search_path
from functions.admin_api.handler import document

ROOT = Path(__file__).parent.parent
TYPES = ROOT / "functions" / "admin_api" / "pages" / "api_types.ts"
HEADER = "// Types of the API's requests and responses. Written by `make console-types`; do not edit.\n\n"
_PROSE = {"title", "description", "examples"}


def main() -> int:
    """Run the named command. Returns the exit code."""
    match sys.argv[1:]:
        case ["types"]:
            TYPES.write_text(types(), encoding="utf-8")
            return 0
        case ["lint"]:
            return lint()
        case ["format"]:
            return _run("biome", "check", "--write")
    sys.stderr.write(f"{__doc__}\n")
    return 2


def lint() -> int:
    """Check types and style, and whether the generated file is current."""
    codes = [_run("tsc"), _run("biome", "check", "--error-on-warnings")]
    if TYPES.read_text(encoding="utf-8") != types():
        sys.stderr.write(f"{TYPES.relative_to(ROOT)} is outdated. Run 'make console-types'.\n")
        return 1
    return max(codes)


def types() -> str:
    """Return the types of all schemas in the OpenAPI description."""
    schemas = _without_prose(document()["components"]["schemas"])
    info = {"title": "Counterfoil", "version": "1"}
    description = {"openapi": "3.1.0", "info": info, "paths": {}, "components": {"schemas": schemas}}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "openapi.json", Path(folder) / "api_types.ts"
        source.write_text(json.dumps(description), encoding="utf-8")
        command: list[str | Path] = [ROOT / "node_modules" / ".bin" / "openapi-typescript", source, "--output", target]
        subprocess.run(command, env={"PATH": search_path()}, capture_output=True, check=True)
        text = target.read_text(encoding="utf-8")
    return HEADER + text[text.index("export interface components") : text.index("export type $defs")]


def _without_prose(schema: Any) -> Any:
    """Return a schema without titles, descriptions and examples.

    The API reference contains them.
    """
    if isinstance(schema, list):
        return [_without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # A property may have the same name as a keyword. Its value is then a schema, never text.
    return {
        name: _without_prose(value) for name, value in schema.items() if name not in _PROSE or isinstance(value, dict)
    }


def _run(program: str, *arguments: str | Path) -> int:
    """Run a program from node_modules with Node.js from the Python packages.

    Returns its exit code.
    """
    command = [ROOT / "node_modules" / ".bin" / program, *arguments]
    return subprocess.run(command, cwd=ROOT, env={"PATH": search_path()}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
