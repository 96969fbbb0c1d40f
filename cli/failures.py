"""What can go wrong for whoever uses the command line: always a sentence and an exit code, never a traceback.

| exit code | meaning |
|---|---|
| 0 | everything is as asked for |
| 1 | the command ran, and what came out is not what was wanted: a file failed, a document is not where it belongs |
| 2 | the command was called wrongly: an unknown option, tenant or file |
| 3 | there is no local cloud, or it could not be brought up |
| 4 | a defect in Counterfoil itself |
| 130 | interrupted |
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """How the command ended, for scripts."""

    OK = 0
    UNWANTED = 1
    USAGE = 2
    NO_CLOUD = 3
    DEFECT = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot do what was asked. The sentence says why, and the way out."""

    exit_code: ClassVar[ExitCode] = ExitCode.UNWANTED


class UsageError(CommandError):
    """The command was called with something that does not exist or does not fit."""

    exit_code = ExitCode.USAGE


class CloudError(CommandError):
    """The local cloud is not up, or cannot be brought up."""

    exit_code = ExitCode.NO_CLOUD
