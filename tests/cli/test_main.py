"""`gpuproof` itself: finding a command, passing its arguments, printing its errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gpuproof import __version__
from gpuproof.cli.jobs import ps
from gpuproof.cli.main import COMMANDS, GROUPS, main, root_parser
from gpuproof.cli.parser import Parser
from gpuproof.errors import ExitCode, GPUproofError, GpuRequired
from gpuproof.util.atomic import write_json

HEAVY = ("boto3", "botocore", "pydantic", "yaml", "torch", "tensorflow", "keras", "numpy", "pynvml")

CommandResult = tuple[int, str, str]


@pytest.fixture
def gpuproof(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Run a command; returns the exit code, standard output and standard error."""

    def run(*words: str) -> CommandResult:
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `gpuproof ps` meet something."""

    def run(_: object) -> int:
        raise error

    monkeypatch.setattr(ps, "run", run)


def imported_by(*words: str) -> set[str]:
    """Modules that a fresh Python has imported when `gpuproof TEXT_COLUMNS` is through."""
    code = (
        f"import sys, atexit, json\natexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        f"from gpuproof.cli.main import main\nsys.exit(main({list(words)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_lists_every_command_in_one_line_of_its_group(
    gpuproof: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = gpuproof("--help")
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= 80
    paragraphs = {text.partition(":\n")[0]: text.splitlines()[1:] for text in out.split("\n\n")}
    assert list(paragraphs)[2] == "Start here"
    for heading, group in GROUPS.items():
        assert [line.split(maxsplit=1) for line in paragraphs[heading]] == [
            [name, command.summary] for name, command in group.items()
        ]


def test_what_help_suggests_first_is_accepted(gpuproof: Callable[..., CommandResult]) -> None:
    _, out, _ = gpuproof("--help")
    suggested = out.partition("Start here:\n")[2].partition("\n\n")[0].splitlines()
    assert len(suggested) == 4
    for line in suggested:
        program, *words = re.split(r"  +", line.strip())[0].split()
        assert program == "gpuproof"
        assert root_parser([words[0]]).parse_args(words[: words.index("--") if "--" in words else None]).run


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(gpuproof: Callable[..., CommandResult], command: str) -> None:
    code, out, _ = gpuproof(command, "--help")
    assert code == 0
    assert f"gpuproof {command}" in out
    # The emulator is a distribution of its own, which describes its command.
    own = {"emulator": "gpuproof_emulator.command_line"}
    module = import_module(own.get(command, f"gpuproof.cli.{COMMANDS[command].module}"))
    description = str(module.__doc__).strip().splitlines()[0]
    assert " ".join(description.split()) in " ".join(out.split())


def test_an_interrupt_that_python_discards_ends_the_command(
    gpuproof: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that arrives while a module is imported: importlib has a weak reference's callback, where it cannot be raised."""

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    def run(_: object) -> int:
        Finalized()
        threading.Event().wait(300)
        return ExitCode.OK

    monkeypatch.setattr(ps, "run", run)
    assert gpuproof("ps")[0] == ExitCode.INTERRUPTED


def test_every_module_of_a_command_is_listed() -> None:
    folder = Path(ps.__file__).parents[1]
    commands = {
        path.stem.replace("_", "-")
        for path in folder.rglob("*.py")
        if "def add_parser(commands" in path.read_text()
    }
    assert commands == set(COMMANDS)


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("run", "--help"), ("ps", "--help"), ("nonsense",)]
)
def test_help_and_its_like_import_nothing_heavy(words: tuple[str, ...]) -> None:
    assert imported_by(*words).isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "words", [("ps",), ("show",), ("logs",), ("wait",), ("stop", "x"), ("pull",), ("rm", "x")]
)
def test_looking_after_runs_imports_nothing_heavy(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path))
    assert imported_by(*words).isdisjoint(HEAVY)


def test_the_version_is_the_packages(gpuproof: Callable[..., CommandResult]) -> None:
    assert gpuproof("--version") == (0, f"gpuproof {__version__}\n", "")


@pytest.mark.parametrize("words", [("--version", "--json"), ("--json", "--version")])
def test_the_version_as_json(gpuproof: Callable[..., CommandResult], words: tuple[str, ...]) -> None:
    code, out, _ = gpuproof(*words)
    assert (code, json.loads(out)) == (0, {"version": 1, "gpuproof": __version__})


def test_no_line_of_any_help_is_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    def long_lines(parser: Parser) -> list[str]:
        own = [line for line in parser.format_help().splitlines() if len(line) > 80]
        return own + [line for child in parser.subcommands.values() for line in long_lines(child)]

    assert long_lines(root_parser()) == []


def test_python_m_gpuproof_is_the_same() -> None:
    done = subprocess.run([sys.executable, "-m", "gpuproof", "--version"], capture_output=True, text=True)
    assert done.stdout == f"gpuproof {__version__}\n"


@pytest.mark.parametrize(
    ("word", "near"),
    [("rnu", "run"), ("log", "logs"), ("puls", "pull"), ("catalog", "catalogue"), ("gpu", "gpus")],
)
def test_a_misspelt_command_suggests_the_nearest(
    gpuproof: Callable[..., CommandResult], word: str, near: str
) -> None:
    code, _, output = gpuproof(word, "x")
    assert code == ExitCode.USAGE
    assert output == f"gpuproof: Unknown command '{word}'.\n          Did you mean `gpuproof {near}`?\n"


def test_a_script_without_a_command_is_understood(gpuproof: Callable[..., CommandResult]) -> None:
    assert "gpuproof run train.py" in gpuproof("train.py")[2]


def test_a_command_that_is_like_none_names_the_help(gpuproof: Callable[..., CommandResult]) -> None:
    code, _, output = gpuproof("xyzzy")
    assert code == ExitCode.USAGE
    assert "gpuproof --help" in output


@pytest.mark.parametrize("words", [(), ("catalogue",)])
def test_without_a_command_help_is_printed(
    gpuproof: Callable[..., CommandResult], words: tuple[str, ...]
) -> None:
    code, out, err = gpuproof(*words)
    assert (code, err) == (ExitCode.USAGE, "")
    assert out.startswith(" ".join(["usage: gpuproof", *words]))
    assert out == gpuproof(*words, "--help")[1]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "train.py", "--epochs", "5"), "gpuproof run train.py -- --epochs 5"),
        (("run", "train.py", "--hyperparam=x=1"), "Did you mean --hyperparameter?"),
        (("run", "train.py", "--requiregpu"), "Did you mean --require-gpu?"),
        (("ps", "--formt", "json"), "Did you mean --format?"),
        (("ps", "extra"), "gpuproof ps --help"),
        (("show", "one", "two"), "gpuproof show --help"),
        (("run", "--instnce-type", "ml.g5.xlarge", "train.py"), "Did you mean --instance-type?"),
        (("stop", "--nwo"), "Did you mean --now?"),
        (("rule", "DS101", "--fromat=json"), "Did you mean --format?"),
    ],
)
def test_an_unknown_argument_is_named_with_a_hint(
    gpuproof: Callable[..., CommandResult], words: tuple[str, ...], hint: str
) -> None:
    code, _, output = gpuproof(*words)
    assert code == ExitCode.USAGE
    assert f"`gpuproof {words[0]}` does not accept the argument" in output
    assert hint in output


@pytest.mark.parametrize(
    ("words", "command", "hint"),
    [
        (("check", "--format", "sariff"), "check", "Did you mean sarif?"),
        (("gpus", "--for", "trainning"), "gpus", "Did you mean training?"),
        (("gpus", "--sort", "prices"), "gpus", "Did you mean price?"),
        (("ps", "--on", "sagemker"), "ps", "Did you mean sagemaker?"),
        (("ps", "--on", "moon"), "ps", "Choose from: local, sagemaker, ec2."),
        (("catalogue", "refresh", "--part", "amiss"), "catalogue refresh", "Did you mean amis?"),
        (("catalogue", "stats"), "catalogue", "Did you mean status?"),
    ],
)
def test_a_misspelt_choice_is_named_with_the_nearest(
    gpuproof: Callable[..., CommandResult], words: tuple[str, ...], command: str, hint: str
) -> None:
    code, out, said = gpuproof(*words)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said.startswith(f"gpuproof: gpuproof {command}: '{words[-1]}' is not a value of ")
    assert hint in said


def test_an_option_of_a_command_within_a_command_is_named(gpuproof: Callable[..., CommandResult]) -> None:
    code, _, said = gpuproof("catalogue", "refresh", "--reigon", "us-east-1")
    assert code == ExitCode.USAGE
    assert "`gpuproof catalogue refresh` does not accept the argument --reigon" in said
    assert "Did you mean --region?" in said


def test_what_is_missing_is_named_with_the_help(gpuproof: Callable[..., CommandResult]) -> None:
    code, _, said = gpuproof("package")
    assert code == ExitCode.USAGE
    assert said.startswith("gpuproof: gpuproof package: the following arguments are required: MODEL.")
    assert "gpuproof package --help" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["gpus --json", "--help"])
def test_a_full_disk_ends_with_one_line_and_no_traceback(command: str, unbuffered: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m gpuproof {command} > /dev/full"],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
    )
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == "gpuproof: cannot write to standard output: no space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_are_no_reason_to_fail(closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m gpuproof gpus --gpu T4 {closed}"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.split())


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_can_be_forced_where_the_output_is_no_terminal(
    variables: dict[str, str], coloured: bool
) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "NO_COLOR")}
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "gpus", "K80", "--include-retired"],
        env={**environment, **variables},
        capture_output=True,
        text=True,
    )
    assert ("\x1b[" in done.stdout) is coloured


def test_what_follows_two_dashes_is_never_ours(
    gpuproof: Callable[..., CommandResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    code, out, _ = gpuproof("run", "train.py", "--dry-run", "--format", "json", "--", "--version", "--", "-x")
    assert code == 0
    assert json.loads(out)["job"]["arguments"] == ["--version", "--", "-x"]


def test_an_error_has_its_message_its_remedy_and_its_code(
    gpuproof: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, GpuRequired("It needs a GPU.", remedy="Find one."))
    assert gpuproof("ps") == (ExitCode.GPU_UNUSED, "", "gpuproof: It needs a GPU.\n          Find one.\n")


def test_an_error_without_a_remedy_is_one_line(
    gpuproof: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, GPUproofError("It is so."))
    assert gpuproof("ps") == (ExitCode.FAILED, "", "gpuproof: It is so.\n")


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["ps"])


def test_an_interrupt_has_its_code(
    gpuproof: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert gpuproof("ps") == (ExitCode.INTERRUPTED, "", "")


def test_closing_the_pipe_early_causes_no_error(tmp_path: Path) -> None:
    for number in range(2000):
        run = tmp_path / "runs" / f"train-{number}"
        run.mkdir(parents=True)
        document = {"id": run.name, "job_name": "train", "kind": "training", "backend": "local"}
        write_json(run / "run.json", {**document, "status": "Completed", "created": number})
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{sys.executable}' -m gpuproof ps --all | head -1"],
        env={**os.environ, "GPUPROOF_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("RUN")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_ascii_terminal_causes_no_failure(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "train-1"
    run.mkdir(parents=True)
    document = {"id": "train-1", "job_name": "train", "kind": "training", "backend": "local"}
    write_json(run / "run.json", {**document, "status": "Failed", "created": 1, "failure_reason": "ünïcödé"})
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "show"],
        env={**os.environ, "GPUPROOF_STATE_DIR": str(tmp_path), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "\\xfcn" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("gpus", "--region", "us-esat-1"),
        ("gpus", "g5.xlarge", "--region", "us-esat-1"),
        ("check", ".", "--region", "us-esat-1"),
        ("explain", "-", "--region", "us-esat-1"),
        ("bench-endpoint", "http://127.0.0.1:1", "--instance-type", "ml.g5.xlarge", "--region", "us-esat-1"),
    ],
)
def test_an_unknown_region_is_wrong_usage_in_every_command(
    gpuproof: Callable[..., CommandResult], words: tuple[str, ...]
) -> None:
    code, out, said = gpuproof(*words)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said == "gpuproof: Unknown region 'us-esat-1'.\n          Did you mean us-east-1?\n"


@pytest.mark.parametrize(
    "words",
    [
        ("gpus", "g5.xlage"),
        ("gpus", "show", "g5.xlage"),
        ("check", ".", "--instance-type", "g5.xlage"),
        ("doctor", "--instance-type", "g5.xlage"),
        ("explain", "-", "--instance-type", "g5.xlage"),
        ("bench-endpoint", "http://127.0.0.1:1", "--instance-type", "g5.xlage"),
    ],
)
def test_an_unknown_instance_type_is_wrong_usage_in_every_command(
    gpuproof: Callable[..., CommandResult], words: tuple[str, ...]
) -> None:
    code, out, said = gpuproof(*words)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said.startswith("gpuproof: Unknown instance type g5.xlage.\n          Did you mean g5.xlarge")


@pytest.mark.parametrize(
    "command",
    [
        name
        for name in COMMANDS
        if name not in ("serve", "emulator", "completion", "agent", "shell", "mcp", "skill", "dashboard")
    ],
)
def test_json_is_a_synonym_in_every_command_that_prints_a_result(
    gpuproof: Callable[..., CommandResult], command: str
) -> None:
    own = {"catalogue": ("refresh",), "notebook": ("list",), "baseline": ("show",)}
    words = (command, *own.get(command, ()), "--help")
    help_text = gpuproof(*words)[1]
    assert "--format" in help_text
    assert "--json" in help_text


def test_an_interrupt_while_python_ends_does_not_replace_the_exit_code() -> None:
    code = """
import os, signal, sys

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)

late = Late()  # released when Python has restored the default actions of signals
sys.argv = ["gpuproof", "gpus", "show", "ml.none"]
from gpuproof.cli.main import run
run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
