"""`counterfoil openapi`: the OpenAPI description of the HTTP API."""

from pathlib import Path
from typing import Annotated

import typer

from cli.output import print_json, write_json


def openapi(
    *,
    to: Annotated[
        Path | None, typer.Option(help="Write the description to this file.", show_default=False, dir_okay=False)
    ] = None,
) -> None:
    """Print the OpenAPI 3.1 description of the HTTP API.

    The API serves the same description at /api/openapi.json.
    """
    from functions.admin_api.handler import document  # slow to import

    if to is None:
        print_json(document())
    else:
        write_json(to, document())
