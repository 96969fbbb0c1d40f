"""Entry point of `counterfoil`, which turns errors into messages and exit codes."""

import errno
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from cli.failures import CommandError, ExitCode


def run() -> None:
    """Run the CLI. Every failure becomes a message and an exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during imports: no cleanup is needed yet
    try:
        from cli.app import app

        signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except CommandError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("Interrupted.", ExitCode.INTERRUPTED)
    except OSError as error:
        _fail(_error_sentence(error), ExitCode.FAILED_CHECK)
    except Exception as error:  # noqa: BLE001 - users get a sentence, and the report contains the traceback
        errors = sys.modules.get("counterfoil.errors")  # commands that only use the API never import it
        if errors is not None and isinstance(error, errors.CounterfoilError):
            _fail(str(error), ExitCode.FAILED_CHECK)
        _fail(
            f"Counterfoil failed unexpectedly. Please report this and attach {_write_report()}",
            ExitCode.INTERNAL_ERROR,
        )


def _fail(sentence: str, code: ExitCode) -> None:
    if not sentence.endswith((".", "!", "?")):
        sentence += "."
    sys.stderr.write(f"counterfoil: {sentence}\n")
    sys.exit(code)


def _error_sentence(error: OSError) -> str:
    location = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"The disk is full{location}: free some space and try again."
    return f"The operating system reported an error: {error.strerror or error}{location}."


def _write_report() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="counterfoil-failure-", suffix=".txt")
    with os.fdopen(descriptor, "w") as file:
        traceback.print_exc(file=file)
    return Path(name)
