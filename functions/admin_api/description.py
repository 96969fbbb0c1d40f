"""The description of the API: what Powertools makes of the routes, OpenAPI 3.1, put right where it is not so."""

import json
import re
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from functions.admin_api.problems import problem_response

_POWERTOOLS_OWN = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
"""Forms of answers that ours are in the place of."""


def described(api: APIGatewayHttpResolver) -> dict[str, Any]:
    """The document, as JSON has it."""
    found: dict[str, Any] = json.loads(api.get_openapi_json_schema())
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            operation["operationId"] = operation["operationId"].removesuffix(re.sub(r"\W", "_", path) + f"_{method}")
            operation["responses"] = {
                status: answer
                for status, answer in sorted(operation["responses"].items())
                if not any(name in json.dumps(answer) for name in _POWERTOOLS_OWN)
            } | {"500": problem_response(500)}
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _not_null(parameter["schema"])
    for name in _POWERTOOLS_OWN:
        found["components"]["schemas"].pop(name, None)
    return found


def methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods of a path; none where there is no such path."""
    return sorted(
        method.upper()
        for template, operations in document["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
        for method in operations
    )


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The form of a parameter that may be left out: there is no null in an address."""
    given = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**rest, **given[0]} if len(given) == 1 else schema
