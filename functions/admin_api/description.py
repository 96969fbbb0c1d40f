"""The description of the API: what Powertools makes of the routes, OpenAPI 3.1, put right where it is not so."""

import json
import re
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from functions.admin_api.problems import problem_response

VERSION = "1"
"""Of the API: what is promised under `/api`."""
ABOUT = (
    "Documents are uploaded, what is in doubt is decided, tasks are handed in, what failed in the end is looked at. "
    "Who calls, and what for, is said by a token (JWT) of the deployment's issuer: its groups are `viewer`, `operator` "
    "or `admin`, and `tenant:{slug}` for each tenant, or `tenant:*`. What is not done is answered with a problem (RFC "
    '9457, application/problem+json) and a sentence; what does not get as far, with `{"message"}` by the gateway '
    "(application/json). A task that is asked for again under the same `idempotency_key` is one task: so ask again "
    "where no answer came, or one of 500 or more."
)
_POWERTOOLS_OWN = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
"""Forms of answers that ours are in the place of."""


def described(api: APIGatewayHttpResolver) -> dict[str, Any]:
    """The document, as JSON has it."""
    from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer  # slow to import, and seldom needed

    api.configure_openapi(
        title="Counterfoil",
        version=VERSION,
        description=ABOUT,
        security_schemes={"token": HTTPBearer(bearerFormat="JWT")},
        security=[{"token": []}],
    )
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
                if parameter["in"] == "header":
                    parameter["name"] = parameter["name"].title()  # Powertools looks for headers in small letters
            for body in operation.get("requestBody", {}).get("content", {}).values():
                body["schema"] = _not_null(body["schema"])
            if method == "get" and "application/json" in operation["responses"]["200"].get("content", {}):
                _say_how_to_ask_again(operation)
    for name in _POWERTOOLS_OWN:
        found["components"]["schemas"].pop(name, None)
    return found


def _say_how_to_ask_again(operation: dict[str, Any]) -> None:
    """Of what is answered to a GET: by which tag, and that who has it already is told 304 (see `etags.conditional`)."""
    told = {"description": "Of the answer, or its version.", "schema": {"type": "string"}}
    operation["responses"]["200"].setdefault("headers", {}).setdefault("ETag", told)
    operation["responses"].setdefault("304", {"description": "It is still the one that If-None-Match names."})
    parameters = operation.setdefault("parameters", [])
    if not any(parameter["name"] == "If-None-Match" for parameter in parameters):
        known = {"description": "The ETag of before.", "schema": {"type": "string"}}
        parameters.append({"name": "If-None-Match", "in": "header", "required": False, **known})


def methods(document: dict[str, Any], asked: APIGatewayProxyEventV2) -> list[str]:
    """The methods of a path that has not the one that is asked for; none where there is no such path."""
    paths = document["paths"]
    named = (
        [paths[asked.path]]
        if asked.path in paths
        else [
            operations
            for template, operations in paths.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), asked.path)
        ]
    )
    found = {method.upper() for operations in named for method in operations}
    return [] if asked.http_method in found else sorted(found)


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Schema of an optional parameter or body without null: it is omitted instead."""
    given = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return rest | (given[0] if len(given) == 1 else {"anyOf": given} if given else {})
