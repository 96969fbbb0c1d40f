"""Files of match weights, as `counterfoil train` writes them."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from counterfoil.documents import matching
from counterfoil.documents.matching.score import Weights, parse
from counterfoil.errors import PermanentError


class InvalidWeightsError(PermanentError):
    """A file holds no match weights."""


def write_weights(path: Path, found: Mapping[str, Any]) -> None:
    """Write a file of weights, a level on each line, so that two can be compared."""
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def shipped() -> dict[str, Any]:
    """The contents of the file that comes with matching."""
    text = resources.files(matching).joinpath("weights.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def read_weights(path: Path) -> Weights:
    """Read one.

    Raises:
        InvalidWeightsError: it is none.
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} holds no match weights: write such a file with `counterfoil train`."
        raise InvalidWeightsError(message) from error
