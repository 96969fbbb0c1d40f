"""Write docs/api.md from the OpenAPI description of the HTTP API.

`python -m tools.api_reference`
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
HEADER = """\
# HTTP API

Rendered from the OpenAPI description by `python -m tools.api_reference`; do not edit. A deployment serves the complete
description at `/api/openapi.json`, and `counterfoil openapi` prints it.

Requests need an ID token of the deployment's issuer as `Authorization: Bearer`. Errors are `application/problem+json`
(RFC 9457). Lists return `next_cursor`, the `cursor` of the next page. Changes may return 429 with `Retry-After`.
"""


def render(document: Mapping[str, Any]) -> str:
    """Render the reference as Markdown.

    It has a section per tag, and the fields of all models.
    """
    operations = [
        (operation["tags"][0], path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [HEADER]
    for tag, routes in groupby(sorted(operations, key=lambda route: route[:3]), key=lambda route: route[0]):
        parts.append(f"## {tag.capitalize()}\n")
        parts += ["\n".join(_route(path, method, operation)) for _, path, method, operation in routes]
    parts.append("## Models\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append("\n".join(_model(name, schema)))
    return "\n".join(parts)


def _model(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if "description" in schema:
        yield f"{schema['description']}\n"
    if "enum" in schema:
        yield f"{_type(schema)}\n"
    if schema.get("properties"):
        yield "| field | type | description |\n|---|---|---|"
        for field, form in schema["properties"].items():
            optional = "" if field in schema.get("required", []) else " (optional)"
            yield f"| `{field}`{optional} | {_type(form)} | {_cell(form.get('description'))} |"
        yield ""


def _route(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield f"{operation.get('description') or operation['summary'] + '.'}\n"
    parameters = operation.get("parameters", [])
    if parameters:
        yield "| parameter | in | type | description |\n|---|---|---|---|"
        for parameter in parameters:
            name = f"`{parameter['name']}`" + ("" if parameter.get("required") else " (optional)")
            yield (
                f"| {name} | {parameter['in']} | {_type(parameter['schema'])} | {_cell(parameter.get('description'))} |"
            )
        yield ""
    body = operation.get("requestBody", {}).get("content", {})
    for media_type, content in body.items():
        yield f"Body: {_type(content['schema'])} (`{media_type}`)\n"
    statuses = operation["responses"]
    for status in sorted(status for status in statuses if status < "300"):
        schemas = [_type(content["schema"]) for content in statuses[status].get("content", {}).values()]
        yield f"Returns {status}{f' with {schemas[0]}' if schemas else ''}: {statuses[status]['description']}\n"
    errors = [status for status in statuses if status >= "300"]
    yield f"Errors: {', '.join(sorted(errors))}.\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the name of a schema's type, such as `string (uuid)` or a model's name."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[-1]}`"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema.get("anyOf", schema.get("oneOf", []))))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    form = f" ({schema['format']})" if "format" in schema else ""
    return f"{schema.get('type', 'any')}{form}"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def reference() -> str:
    """Render the reference of the current API."""
    from functions.admin_api.handler import document  # slow to import

    return render(document())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
