"""Help, exit codes, and error messages instead of tracebacks."""

import errno
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli import app as commands
from cli import main
from cli.failures import CloudError, CommandError, ExitCode, UsageError
from counterfoil.errors import DatabaseUnavailableError

COMMAND = Path(sys.executable).parent / "counterfoil"


def run_failing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> tuple[int, str]:
    """Return the exit code and standard error of a command that raises `error`."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(commands, "app", fail)
    with pytest.raises(SystemExit) as ended:
        main.run()
    code = ended.value.code
    assert isinstance(code, int)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandError("The check failed"), ExitCode.FAILED_CHECK),
        (UsageError("There is no such file"), ExitCode.USAGE),
        (CloudError("There is no cloud"), ExitCode.NO_CLOUD),
        (DatabaseUnavailableError("PostgreSQL is not available"), ExitCode.FAILED_CHECK),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_failures_print_a_sentence_and_set_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: ExitCode
):
    ended, shown = run_failing(monkeypatch, capsys, error)
    assert ended == code
    assert shown.startswith("counterfoil: ")
    assert shown.endswith(".\n")
    assert shown.count("\n") == 1


def test_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    _, shown = run_failing(monkeypatch, capsys, OSError(errno.ENOSPC, "No space left on device", "/here"))
    assert "The disk is full (/here)" in shown


def test_unexpected_error_writes_traceback_to_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    code, shown = run_failing(monkeypatch, capsys, ZeroDivisionError("division by zero"))
    report = Path(shown.rsplit(" ", 1)[1].removesuffix(".\n"))
    assert code == ExitCode.INTERNAL_ERROR
    assert "Traceback" not in shown
    assert "ZeroDivisionError" in report.read_text()
    report.unlink()


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_command_help_begins_with_its_summary(name: str):
    command = commands.COMMANDS[name]
    module, attribute = command.target.split(":")
    loaded = getattr(import_module(module), attribute)
    text = loaded.info.help if isinstance(loaded, typer.Typer) else loaded.__doc__
    assert str(text).strip().splitlines()[0] == command.summary
    shown = CliRunner().invoke(commands.app, [name, "--help"])
    assert shown.exit_code == 0
    assert "Usage: " in shown.output


def test_help_imports_no_heavy_modules():
    program = (
        "import atexit, sys; sys.argv = ['counterfoil', '--help']\n"
        "heavy = {'psycopg', 'boto3', 'lxml', 'pydantic'}\n"
        "atexit.register(lambda: print('LOADED', sorted(heavy & set(sys.modules))))\n"
        "from cli.main import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in commands.COMMANDS)
    assert "LOADED []" in done.stdout


def test_misspelled_command_suggests_the_correct_one():
    done = subprocess.run([COMMAND, "cluster"], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE
    assert "'clusters'" in done.stderr
