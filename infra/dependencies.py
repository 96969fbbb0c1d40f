"""Builds the dependency layer, which contains the functions' packages.

The packages are locked in `layers/dependencies/requirements.txt`. `python -m infra.dependencies` writes this file from
uv.lock. With `--check`, it exits with code 1 if the file is out of date.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import uv

from infra.packaging import BUILD, ROOT, Package, PackagingError, Target, archive, compile_all, interpreter, pack

REQUIREMENTS = ROOT / "layers" / "dependencies" / "requirements.txt"

AWS_SERVICES = frozenset(
    {
        "bedrock-runtime",
        "cloudwatch",
        "cognito-idp",
        "lambda",
        "rds",
        "s3",
        "secretsmanager",
        "sesv2",
        "sqs",
        "textract",
    }
)
"""Services that functions call. The data of other services is removed: botocore has 25 MB of data for 400 services."""

LINK = "dependencies.pth"
"""File in the local layer that adds the folder with the packages to the import path."""
_FORMAT = "1"
"""Part of the layer's hash. Increase it when a change to this module changes the layer for the same lock."""
_NOT_FOR_RUN_TIME = ("bin", "**/__pycache__", "**/tests", "**/*.pyi", "boto3/examples", "**/*.dist-info/RECORD")


def dependency_layer(target: Target) -> Package:
    """Return the layer for `target`, built once per lock.

    The layer for this machine contains only the path of the unpacked packages. They consist of 4,700 files, and the
    local cloud would unpack them for each process.

    Raises:
        PackagingError: a locked wheel cannot be downloaded.
    """
    compiler = interpreter(target.python)
    inputs = (
        _FORMAT,
        target.python,
        target.platform or f"{sys.platform} {BUILD}",
        str(compiler is not None),
        *sorted(AWS_SERVICES),
    )
    digest = hashlib.sha256("\n".join(inputs).encode() + REQUIREMENTS.read_bytes()).hexdigest()
    layer = BUILD / f"dependencies-{digest[:16]}"
    if target.platform is None:
        if not layer.exists():
            _build(layer, target, compiler)
        link = f"python/lib/python{target.python}/site-packages/{LINK}"
        return pack({link: layer / LINK}, target, name="dependencies", target_folder="/opt")
    package = Package(layer.with_suffix(".zip"), digest)
    if not package.path.exists():
        if compiler is None:
            sys.stderr.write(
                f"Python {target.python} is not installed: the layer has no byte code, so cold starts are slower.\n"
            )
        with tempfile.TemporaryDirectory() as folder:
            _build(Path(folder) / "layer", target, compiler)
            archive(Path(folder) / "layer", package.path)
    return package


def _build(folder: Path, target: Target, compiler: str | None) -> None:
    """Build the layer in `folder`, which appears only when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        site = Path(partial) / "layer" / "python"
        _install(site, target)
        trim(site)
        compile_all(site.parent, compiler, target_folder="/opt")
        if target.platform is None:
            (site.parent / LINK).write_text(f"{folder / 'python'}\n")
        with suppress(OSError):  # another process was faster
            site.parent.rename(folder)


def _install(site: Path, target: Target) -> None:
    platform = ["--python-platform", target.platform] if target.platform else []
    command = [
        uv.find_uv_bin(),
        "pip",
        "install",
        "--quiet",
        "--no-config",
        "--system-certs",
        "--link-mode",
        "copy",
        "--no-compile-bytecode",
    ]
    command += ["--target", str(site), "--python-version", target.python, *platform, "--python", sys.executable]
    command += ["--only-binary", ":all:", "--require-hashes", "--requirements", str(REQUIREMENTS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if result.returncode != 0:
        raise PackagingError(
            f"The dependency layer for Python {target.python} on {target.platform or 'this machine'} cannot be built; "
            f"uv reports:\n{result.stderr.strip()}"
        )


def trim(site: Path) -> None:
    """Remove files that no function needs at run time."""
    for pattern in _NOT_FOR_RUN_TIME:
        for path in list(site.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for path in (site / "botocore" / "data").iterdir():
        if path.is_dir() and path.name not in AWS_SERVICES:
            shutil.rmtree(path)


def exported() -> str:
    """Return the expected content of `layers/dependencies/requirements.txt`.

    It lists the dependencies in uv.lock with their hashes.

    Raises:
        PackagingError: uv.lock does not match pyproject.toml.
    """
    command = [uv.find_uv_bin(), "export", "--quiet", "--frozen", "--no-default-groups", "--no-emit-project"]
    command += ["--no-header", "--no-annotate", "--format", "requirements.txt"]
    result = subprocess.run(  # noqa: S603 - our own arguments
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise PackagingError(f"uv cannot export the locked dependencies: {result.stderr.strip()}")
    return result.stdout


def main(arguments: list[str]) -> int:
    """Write the file, or compare it if `--check` is given. Return the exit code."""
    expected = exported()
    if arguments == ["--check"]:
        if REQUIREMENTS.read_text() == expected:
            return 0
        sys.stderr.write(
            "layers/dependencies/requirements.txt does not match uv.lock: run python -m infra.dependencies\n"
        )
        return 1
    REQUIREMENTS.write_text(expected)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
