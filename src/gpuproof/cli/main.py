"""Entry point of `gpuproof`: imports and runs the module of one command; prints errors and returns exit codes."""

from __future__ import annotations

import argparse
import atexit
import json
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple, NoReturn

from gpuproof import settings
from gpuproof.backends.interrupts import redelivered_interrupts
from gpuproof.cli import streams
from gpuproof.cli.parser import Parser, nearest, unknown_argument
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.version import __version__


class Command(NamedTuple):
    """One command of `gpuproof`."""

    module: str
    """Below `gpuproof.cli`; defines `add_parser(commands)` and `run(arguments) -> int`."""
    summary: str


GROUPS: dict[str, dict[str, Command]] = {
    "Before a run": {
        "check": Command("diagnostics.check", "find idle GPUs and broken jobs before you pay for them"),
        "plan": Command("planning.plan", "estimate memory, time and cost of a script on each GPU"),
        "gpus": Command("aws.gpus", "list AWS GPU instance types: memory, prices, frameworks"),
        "calibrate": Command("planning.calibrate", "measure a GPU for more accurate plans"),
        "rule": Command("diagnostics.rule", "show the documentation of a rule of `check`"),
    },
    "Run": {
        "run": Command("jobs.run", "run a job and prove that it used its GPU"),
        "watch": Command("jobs.watch", "run any command and prove what its GPUs did"),
        "notebook": Command("notebooks.notebook", "create and manage SageMaker notebook instances"),
        "ps": Command("jobs.ps", "list runs"),
        "show": Command("jobs.show", "show one run: its state, verdict and artifacts"),
        "logs": Command("jobs.logs", "print a run's output; -f follows it until the run ends"),
        "top": Command("jobs.top", "watch what GPUs do now, and what they wait for"),
        "dashboard": Command("jobs.dashboard", "show runs, plots, costs and plans in a browser"),
        "shell": Command("jobs.shell", "open a shell on the instance of a run on EC2"),
        "wait": Command("jobs.wait", "wait until a run has ended"),
        "stop": Command("jobs.stop", "stop a run"),
    },
    "After a run": {
        "verdict": Command("jobs.verdict", "print the verdict on a job that was watched"),
        "report": Command("jobs.report", "write one run as an HTML page with its charts"),
        "compare": Command("jobs.compare", "compare runs, or a run with the baseline; limits for CI"),
        "baseline": Command("jobs.baseline", "keep a run to compare later ones with"),
        "pull": Command("jobs.pull", "copy a run's artifacts, verdict and logs into a folder"),
        "receipt": Command("jobs.receipt", "write the receipt of a run, signed with an SSH key"),
        "verify": Command("jobs.verify", "verify a receipt: its signature, its run, its source"),
        "rm": Command("jobs.rm", "remove runs that have ended"),
    },
    "Serve": {
        "package": Command("serving.package", "build a model.tar.gz and check that it serves"),
        "serve": Command("serving.serve", "serve a model with SageMaker's handler contract"),
        "deploy": Command("endpoints.deploy", "deploy a model to an endpoint; prove that it is on the GPU"),
        "predict": Command("endpoints.predict", "send data to an endpoint or a local server"),
        "bench-endpoint": Command(
            "serving.bench_endpoint", "measure an endpoint: latency, highest rate, cost"
        ),
        "transform": Command("endpoints.transform", "run a model over files in S3 or here (batch transform)"),
        "delete": Command("endpoints.delete", "delete endpoints with everything that belongs to them"),
        "agent": Command("serving.agent", "write the agent file, for containers of your own"),
    },
    "AWS account": {
        "setup": Command("account.setup", "prepare an AWS account for its first run"),
        "iam": Command("aws.iam", "print the minimal IAM permissions that GPUproof needs"),
        "audit": Command("account.audit", "show what an account's GPUs did, and what idle ones cost"),
        "cost": Command("account.cost", "show what GPUproof's runs have cost"),
        "cleanup": Command("account.cleanup", "list the GPU resources that you pay for; delete them"),
        "catalogue": Command("aws.catalogue", "update the data about AWS GPUs from AWS"),
    },
    "This machine": {
        "doctor": Command("diagnostics.doctor", "find out why a GPU is unused or slow on this machine"),
        "explain": Command("diagnostics.explain", "explain the known errors in a log, with the next command"),
        "emulator": Command("aws.emulator", "emulate AWS on this machine; SageMaker jobs really run"),
        "completion": Command("completion", "print a completion script for bash, zsh or fish"),
        "schema": Command("schema", "print the JSON schema of gpuproof.yaml or verdict.json"),
        "mcp": Command("assistants.mcp", "serve the commands as tools for coding assistants (MCP)"),
        "skill": Command("assistants.skill", "print a guide to GPUproof for coding assistants"),
    },
}
"""Every command, by the heading under which `gpuproof --help` lists it."""

_NAME_WIDTH = 16
_START_HERE = """\
Start here:
  gpuproof check .                     what would idle, crash or waste money?
  gpuproof plan train.py               which GPU, how long, how much?
  gpuproof run train.py                rehearse it here; --on sagemaker, ec2
  gpuproof watch -- python train.py    prove what a job of your own does
"""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def run() -> NoReturn:
    """Run the command of the process's arguments, and end the process with its exit code.

    When Python ends it restores the default action of SIGINT, so that a late Ctrl-C would replace the exit code.
    """
    # Called after all threads have ended: before that, Ctrl-C must still work.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.exit(main())


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; those of the process if None.

    Returns:
        The exit code.
    """
    words = sys.argv[1:] if argv is None else argv
    # Everything after `--` belongs to the script.
    end = words.index("--") if "--" in words else len(words)
    streams.prepare()
    try:
        with redelivered_interrupts():
            return _run(words[:end], words[end + 1 :] if end < len(words) else None)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as in `gpuproof ps | head`.
        streams.discard_output()
        return ExitCode.OK
    except OSError as error:
        if not streams.output_failed(error):
            raise
        streams.discard_output()
        reason = (error.strerror or str(error)).lower()
        print(f"gpuproof: cannot write to standard output: {reason}", file=sys.stderr)
        return ExitCode.FAILED


def _run(words: list[str], script_arguments: list[str] | None) -> int:
    try:
        arguments = _parse(words)
        if arguments is None:
            sys.stdout.flush()
            return ExitCode.USAGE
        arguments.script_arguments = script_arguments
        settings.show_notices(getattr(arguments, "format", "text") == "text")
        code = arguments.run(arguments)
        if not sys.stdout.closed:  # the language server closes it
            sys.stdout.flush()
        return int(code)
    except GPUproofError as error:
        return _print_error(error)


def _parse(words: list[str]) -> argparse.Namespace | None:
    """The arguments; None if no command is given, and help was printed."""
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        raise _unknown_command(chosen)
    parser = root_parser([chosen] if chosen else [])
    if chosen is None and not words:
        parser.print_help()
        return None
    arguments, unknown = parser.parse_known_args(words)
    command = parser.commands[chosen] if chosen else parser
    if unknown:
        raise unknown_argument(command, next((word for word in unknown if word.startswith("-")), unknown[0]))
    if getattr(arguments, "run", None) is None:
        command.print_help()
        return None
    return arguments


class _ShowVersion(argparse.Action):
    """Prints the version, with `--json` anywhere on the command line as JSON."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        as_json = isinstance(parser, Parser) and "--json" in parser.words
        print(json.dumps({"version": 1, "gpuproof": __version__}) if as_json else f"gpuproof {__version__}")
        sys.stdout.flush()
        parser.exit()


class RootParser(Parser):
    """The parser of `gpuproof`.

    Attributes:
        commands: the parsers of the commands, by name.
    """

    commands: dict[str, Parser]

    def format_help(self) -> str:
        """The commands by group, one line each; argparse could only print them as one list."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self.arguments, [])
        formatter.add_text(self.description)
        text = f"{formatter.format_help()}\n{_START_HERE}"
        for heading, group in GROUPS.items():
            text += f"\n{heading}:\n"
            text += "".join(f"  {name:<{_NAME_WIDTH}}{command.summary}\n" for name, command in group.items())
        formatter = self._get_formatter()
        formatter.start_section("Options")
        formatter.add_arguments(action for action in self.arguments if action.option_strings)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return f"{text}\n{formatter.format_help()}"


def root_parser(complete: Iterable[str] = COMMANDS) -> RootParser:
    """The parser of the whole command line.

    Args:
        complete: the commands whose modules are imported, with their arguments; of others, only the name is known.
    """
    parser = RootParser(
        prog="gpuproof",
        description="Run TensorFlow, Keras and PyTorch scripts on AWS GPUs and prove that the GPU did the work.",
        epilog="`gpuproof COMMAND --help` shows a command's arguments. Exit codes: 0 success, 1 findings or a failed "
        "job, 2 wrong usage, 3 undecided, 4 the GPU was not used, 5 AWS refused, 70 internal error, 130 interrupted.",
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show the version and exit; with --json, as JSON"
    )
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        if name in complete:
            import_module(f"gpuproof.cli.{command.module}").add_parser(commands)
        else:
            commands.add_parser(name, help=command.summary, add_help=False)
    parser.commands = dict(commands.choices)
    return parser


def _unknown_command(word: str) -> UsageError:
    near = nearest(word, COMMANDS)
    if near is None and word.endswith((".py", ".sh", ".yaml", ".yml")):
        remedy = f"gpuproof run {word}"
    else:
        remedy = f"Did you mean `gpuproof {near}`?" if near else "`gpuproof --help` lists the commands."
    return UsageError(f"Unknown command '{word}'.", remedy=remedy)


def _print_error(error: GPUproofError) -> int:
    sys.stdout.flush()
    indented = "\n          "
    print("gpuproof: " + error.message.replace("\n", indented), file=sys.stderr)
    if error.remedy:
        print("          " + error.remedy.replace("\n", indented), file=sys.stderr)
    return error.exit_code
