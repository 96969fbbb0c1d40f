"""The emulator's own process: `python -m cli.cloud.emulator_process INTERPRETER`.

MiniStack runs functions with the interpreter that it runs on itself, in whose environment everything of the project is
installed: a function would find there what its layers lack, and fail on AWS. Here they get INTERPRETER instead.
"""

import sys


def main() -> None:
    """Serve until ended. Settings come from the environment."""
    sys.executable = sys.argv.pop(1)

    from ministack.app import main as serve

    serve()


if __name__ == "__main__":
    main()
