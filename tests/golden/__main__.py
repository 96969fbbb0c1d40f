"""Overwrite the golden files with current values: `python -m tests.golden`."""

import json

from tests.golden import values

if __name__ == "__main__":
    golden_values = {
        "identities": values.identities(),
        "openapi": values.openapi(),
        "extraction": dict(values.extraction()),
        "matching": {name: values.matching(name) for name in values.SETS},
    }
    for name, content in golden_values.items():
        (values.FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
