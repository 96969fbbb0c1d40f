"""Synthesized templates, with references resolved to resource names."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.packaging import Package

FLAGS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "cdk.json").read_text())["context"]
FAST: dict[str, Any] = {"aws:cdk:bundling-stacks": []}
NAMES = ("QueueName", "FunctionName", "LogGroupName", "TopicName", "BucketName", "RuleSetName")


def synthesize(folder: Path, context: Mapping[str, Any], dependencies: Package) -> "Synthesis":
    """Synthesize the app into `folder`, without CDK's validation.

    The tests use cfn-lint instead.
    """
    from infra.__main__ import build, new_app

    os.environ["CDK_VALIDATION"] = "false"
    app = new_app({**FLAGS, **FAST, **context}, str(folder))
    build(app, dependencies)
    app.synth()
    return Synthesis(folder)


@dataclass(frozen=True)
class Synthesis:
    """A folder with the templates of a synthesized app."""

    folder: Path

    def __getitem__(self, stack: str) -> "Template":
        return Template(json.loads((self.folder / f"counterfoil-{stack}.template.json").read_text()))

    @property
    def app(self) -> "Template":
        """State and pipeline stacks as one template, with imports replaced by references."""
        documents = [json.loads(path.read_text()) for path in sorted(self.folder.glob("counterfoil-*.template.json"))]
        exports = {
            output["Export"]["Name"]: output["Value"]
            for document in documents
            for output in document.get("Outputs", {}).values()
            if "Export" in output
        }
        parts = [
            json.loads(path.read_text(), object_hook=lambda node: _imported(node, exports)) for path in self._app()
        ]
        return Template({kind: {**parts[0][kind], **parts[-1][kind]} for kind in ("Resources", "Outputs")})

    def _app(self) -> list[Path]:
        names = [f"counterfoil-{stack}.template.json" for stack in ("data", "pipeline")]
        return [self.folder / name for name in names if (self.folder / name).exists()]

    @property
    def stacks(self) -> set[str]:
        return {path.name.removesuffix(".template.json") for path in self.folder.glob("*.template.json")}


@dataclass(frozen=True)
class Template:
    """A CloudFormation template."""

    document: dict[str, Any]

    def resources(self, type_: str) -> dict[str, dict[str, Any]]:
        """Return the properties of all resources of a type, by logical id."""
        return {
            id_: resource.get("Properties", {})
            for id_, resource in self.document["Resources"].items()
            if resource["Type"] == type_
        }

    def only_resource(self, type_: str) -> dict[str, Any]:
        """Return the properties of the only resource of a type."""
        (only,) = self.resources(type_).values()
        return only

    def named_resource(self, type_: str, name: str) -> dict[str, Any]:
        """Return the properties of the resource with this physical name."""
        return self.document["Resources"][self.id_of(type_, name)]["Properties"]  # type: ignore[no-any-return]

    def id_of(self, type_: str, name: str) -> str:
        (id_,) = [id_ for id_, properties in self.resources(type_).items() if name in self._names(properties)]
        return id_

    @staticmethod
    def _names(properties: dict[str, Any]) -> list[Any]:
        return [properties.get(key) for key in NAMES]

    def resolve(self, value: Any) -> Any:
        """Replace Ref, Fn::GetAtt, Fn::Join and imports with text, preferably names."""
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        text: str | None = None
        match value:
            case {"Ref": str(id_)}:
                text = self._name(id_)
            case {"Fn::GetAtt": [str(id_), str(attribute)]}:
                text = self._name(id_) if attribute == "Arn" else f"{self._name(id_)}.{attribute}"
            case {"Fn::Join": [str(separator), list(parts)]}:
                text = separator.join(str(self.resolve(part)) for part in parts)
            case {"Fn::ImportValue": str(export)}:
                text = export
            case {"Fn::Select": [index, {"Fn::Split": [_, source]}]}:
                text = f"part {index} of {self.resolve(source)}"
        return {key: self.resolve(item) for key, item in value.items()} if text is None else text

    def _name(self, id_: str) -> str:
        resource = self.document["Resources"].get(id_)
        names = [name for name in self._names(resource.get("Properties", {})) if name] if resource else []
        return str(self.resolve(names[0])) if names else id_

    def role_of(self, function: dict[str, Any]) -> dict[str, Any]:
        return self.role(function["Role"])

    def role(self, reference: dict[str, Any]) -> dict[str, Any]:
        """Return the properties of a role, including its attached policies."""
        id_ = reference["Fn::GetAtt"][0]
        role = self.document["Resources"][id_]["Properties"]
        attached = [policy for policy in self.resources("AWS::IAM::Policy").values() if {"Ref": id_} in policy["Roles"]]
        return {**role, "Policies": [*role.get("Policies", ()), *attached]}

    def statements(self, role: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
        """Yield the effect, action and resource of each statement in a role's policies."""
        for policy in role["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                for action in aslist(statement["Action"]):
                    for resource in aslist(statement["Resource"]):
                        yield statement["Effect"], action, self.resolve(resource)


def _imported(node: dict[str, Any], exports: Mapping[str, Any]) -> Any:
    return exports.get(str(node["Fn::ImportValue"]), node) if node.keys() == {"Fn::ImportValue"} else node


def aslist(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


if __name__ == "__main__":  # for the test that synthesizes in a separate process
    synthesize(Path(sys.argv[1]), {}, Package(Path(sys.argv[2]), sys.argv[3]))
