"""Errors that the CLI reports with a message and exit code, without a traceback.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | the command ran with an unexpected result: a file failed, a document is not in the expected state |
| 2 | usage error: for example, an unknown option, tenant or file |
| 3 | the local cloud does not exist or could not start |
| 4 | a defect in Counterfoil itself |
| 130 | interrupted |
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit code of a command, for scripts."""

    OK = 0
    FAILED_CHECK = 1
    USAGE = 2
    NO_CLOUD = 3
    INTERNAL_ERROR = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """A command failed. The message states the reason and what to do next."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED_CHECK


class UsageError(CommandError):
    """The command line is invalid: for example, an unknown option, tenant or file."""

    exit_code = ExitCode.USAGE


class CloudError(CommandError):
    """The local cloud is not running, or cannot start."""

    exit_code = ExitCode.NO_CLOUD
