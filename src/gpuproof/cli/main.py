"""`gpuproof VERB …`: finds the verb's file and runs it; says errors in words and leaves with their exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.version import __version__


class Verb(NamedTuple):
    """A verb of the command line."""

    module: str
    """Below `gpuproof.cli`; holds `add_parser(verbs)` and `run(arguments) -> int`."""
    summary: str


VERBS = {
    "run": Verb("jobs.run", "run a job and give a verdict on its GPU use"),
    "ps": Verb("jobs.ps", "list runs"),
    "show": Verb("jobs.show", "show one run: its state, verdict and artifacts"),
    "logs": Verb("jobs.logs", "print what a run's script printed; -f goes on until it ends"),
    "stop": Verb("jobs.stop", "stop a run"),
    "wait": Verb("jobs.wait", "wait until a run has ended"),
    "pull": Verb("jobs.pull", "copy a run's artifacts, verdict and logs into a folder"),
    "rm": Verb("jobs.rm", "remove runs that have ended"),
    "explain": Verb("diagnostics.explain", "say what went wrong in a log, and what to type next"),
    "check": Verb("diagnostics.check", "find what will leave a GPU idle in scripts and job descriptions"),
    "doctor": Verb("diagnostics.doctor", "look why a GPU is not used, or slow, on this machine"),
    "bench-endpoint": Verb(
        "serving.bench_endpoint", "measure an endpoint: latency, highest rate, cost per million requests"
    ),
    "package": Verb("serving.package", "build a model.tar.gz and check that it serves"),
    "serve": Verb("serving.serve", "serve a model by SageMaker's handler contract"),
    "rule": Verb("diagnostics.rule", "say what a rule of `gpuproof check` is about"),
    "gpus": Verb("aws.gpus", "choose a GPU: what AWS offers, what it costs, what runs on it"),
    "iam": Verb("aws.iam", "print the least permissions that GPUproof needs"),
    "catalogue": Verb("aws.catalogue", "refresh the facts about AWS GPUs from AWS itself"),
    "schema": Verb("schema", "print the JSON schema of gpuproof.yaml"),
    "emulator": Verb("aws.emulator", "an AWS on this machine that really runs SageMaker jobs"),
}
"""Every verb, in the order of `gpuproof --help`."""


def main(argv: list[str] | None = None) -> int:
    """The console script's entry point; gives the exit code."""
    words = sys.argv[1:] if argv is None else argv
    # What follows `--` is the script's, whatever it looks like.
    end = words.index("--") if "--" in words else len(words)
    for stream in (sys.stdout, sys.stderr):
        # A file's name may hold what the terminal cannot show; that is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = _read(words[:end])
        arguments.script_arguments = words[end + 1 :] if end < len(words) else None
        code = arguments.run(arguments)
        sys.stdout.flush()
        return int(code)
    except GPUproofError as error:
        return _say(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # `gpuproof ps | head`: whoever read us has seen enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK


def _read(words: list[str]) -> argparse.Namespace:
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked is not None and asked not in VERBS:
        raise _no_such_verb(asked)
    parser = argparse.ArgumentParser(
        prog="gpuproof",
        description="Take a TensorFlow, Keras or PyTorch script to the right AWS GPU and prove that the GPU did the work.",
        epilog="`gpuproof VERB --help` tells more. Exit codes: 0 fine, 1 findings or a failed job, 2 wrong usage, "
        "3 undecided, 4 the GPU was not used, 5 AWS refused, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"gpuproof {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in VERBS.items():
        if name != asked:
            verbs.add_parser(name, help=verb.summary, add_help=False)
        else:
            import_module(f"gpuproof.cli.{verb.module}").add_parser(verbs)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        raise _not_taken(str(asked), unknown[0], verbs.choices[str(asked)])
    return arguments


def _no_such_verb(asked: str) -> UsageError:
    near = _nearest(asked, VERBS)
    if near is None and asked.endswith((".py", ".sh", ".yaml", ".yml")):
        remedy = f"gpuproof run {asked}"
    else:
        remedy = f"Did you mean `gpuproof {near}`?" if near else "`gpuproof --help` lists the verbs."
    return UsageError(f"There is no verb '{asked}'.", remedy=remedy)


def _not_taken(verb: str, word: str, parser: argparse.ArgumentParser) -> UsageError:
    # argparse has no public list of a parser's flags.
    flags: list[str] = [*parser._option_string_actions]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    near = _nearest(word.partition("=")[0], flags, cutoff=0.75) if word.startswith("-") else None
    hints = [f"Did you mean {near}?"] if near else []
    if verb == "run":
        hints.append("What is the script's goes after --, as in: gpuproof run train.py -- --epochs 5")
    return UsageError(
        f"`gpuproof {verb}` does not take {word}.", remedy=" ".join(hints) or f"gpuproof {verb} --help"
    )


def _nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    import difflib  # costs every start 3 ms, for what few of them need

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)), None)


def _say(error: GPUproofError) -> int:
    sys.stdout.flush()
    indented = "\n          "
    print("gpuproof: " + error.message.replace("\n", indented), file=sys.stderr)
    if error.remedy:
        print("          " + error.remedy.replace("\n", indented), file=sys.stderr)
    return error.exit_code
