"""Files of match weights, as written by `counterfoil train`."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from counterfoil.documents import matching
from counterfoil.documents.matching.score import Weights, parse
from counterfoil.errors import PermanentError


class InvalidWeightsError(PermanentError):
    """The file does not contain match weights."""


def write_weights(path: Path, weights: Mapping[str, Any]) -> None:
    """Write a weights file with one level per line, so that files can be compared."""
    path.write_text(json.dumps(weights, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def shipped() -> dict[str, Any]:
    """Return the contents of the shipped weights file."""
    text = resources.files(matching).joinpath("weights.json").read_text(encoding="utf-8")
    weights: dict[str, Any] = json.loads(text)
    return weights


def read_weights(path: Path) -> Weights:
    """Read a weights file.

    Raises:
        InvalidWeightsError: the file is not a weights file.
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is not a weights file. Create one with `counterfoil train`."
        raise InvalidWeightsError(message) from error
