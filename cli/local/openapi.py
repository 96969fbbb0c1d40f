"""`counterfoil openapi`: the description of the HTTP API, for generators of clients and for people."""

from pathlib import Path
from typing import Annotated

import typer

from cli.output import print_json, write_json


def openapi(
    *,
    to: Annotated[Path | None, typer.Option(help="Write it to this file.", show_default=False, dir_okay=False)] = None,
) -> None:
    """Print the description of the HTTP API, OpenAPI 3.1.

    The API itself serves it at /api/openapi.json.
    """
    from functions.admin_api.handler import document  # slow to import

    if to is None:
        print_json(document())
    else:
        write_json(to, document())
