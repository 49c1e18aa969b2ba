"""The guide for coding assistants: what to use GPUproof for, in which order, and how to read its answers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.cli.main import COMMANDS, root_parser

SUMMARY = "GPUproof takes a TensorFlow, Keras or PyTorch script to the right AWS GPU, on EC2 or SageMaker, and proves that the GPU did the work."

EXIT_CODES = {
    0: "success: no findings; the GPU was used, or none was requested",
    1: "findings, or a failed job",
    2: "wrong usage, or an invalid job description",
    3: "undecided: no credentials, no GPU to examine, facts missing",
    4: "the job ran but did not use the GPU that it asked for",
    5: "AWS refused: quota, capacity, permission",
    70: "`check`: an internal error; the findings of some rule on some file are missing",
    130: "interrupted",
}
"""What the exit codes of all commands mean."""


class Task(NamedTuple):
    """Something that a user asks for, and the commands that do it, in order."""

    task: str
    commands: tuple[str, ...]


TASKS = (
    Task("Find out why a job would leave its GPU idle, lose its model or crash", ("gpuproof check .", "gpuproof rule CODE")),
    Task("Choose a GPU for a script: does it fit, how long does it take, what does it cost", ("gpuproof plan SCRIPT",)),
    Task("Make a model fit into a GPU's memory", ("gpuproof plan SCRIPT --fit GPU",)),
    Task("Look up an instance type, a GPU or a price (NAME is g5.xlarge, g5 or A100)", ("gpuproof gpus NAME",)),
    Task("Explain the errors in a log (a file, a run, or - for standard input)", ("gpuproof explain LOG",)),
    Task("Find out why TensorFlow or PyTorch does not see the GPU of this machine", ("gpuproof doctor",)),
    Task("Try a job on this machine as SageMaker would run it", ("gpuproof run SCRIPT --instance-type TYPE --no-require-gpu",)),
    Task(
        "Train on AWS within a cost limit",
        (
            "gpuproof run SCRIPT --on sagemaker --instance-type TYPE --max-duration 2h --dry-run",
            "gpuproof run SCRIPT --on sagemaker --instance-type TYPE --max-duration 2h --max-cost USD --detach",
            "gpuproof show RUN",
        ),
    ),
    Task("Find out whether a run used its GPU, and what it cost", ("gpuproof ps", "gpuproof show RUN")),
    Task("Find out whether a change made a job slower or more expensive", ("gpuproof compare RUN RUN", "gpuproof compare RUN --max-slower 5%")),
    Task(
        "Prove to others what a run was made of, did and cost",
        ("gpuproof receipt RUN --sign KEY -o receipt.json", "gpuproof verify receipt.json --key KEY.pub"),
    ),
    Task(
        "Deploy a model for a limited time, and delete it",
        ("gpuproof deploy MODEL --instance-type TYPE --ttl 2h --max-cost USD", "gpuproof predict NAME --data FILE", "gpuproof delete NAME"),
    ),
    Task("Find out what the GPUs of an account did, and what idle ones cost", ("gpuproof audit", "gpuproof audit --by user")),
    Task("Find the GPU resources that you are billed for now", ("gpuproof cleanup --all-regions",)),
    Task("Try everything without an AWS account", ("gpuproof emulator",)),
)  # fmt: skip
"""The order in which a user meets them."""

INSTRUCTIONS = (
    f"{SUMMARY} Call `check` before a job runs and `plan` before you choose an instance type; `verdict` says whether the GPU of a run "
    "worked, `audit` what the GPUs of an account did, and `cleanup` what costs money now. Each result has `next`: the tools or commands that follow. Words in capitals are to be "
    "replaced. Prices are list prices in USD."
)
"""What an MCP client tells its model about the tools."""

_EVERYWHERE = ("--help", "--json", "--format")

_HABITS = (
    "Run `gpuproof check .` before a job starts, and fix errors rather than suppress them.",
    "Run `gpuproof plan SCRIPT` before you choose an instance type; it needs neither a GPU nor an AWS account.",
    "Show the user the plan of `--dry-run` before anything that costs money, and pass `--max-cost`.",
    "Every endpoint gets a `--ttl`, every run on AWS a `--max-duration`.",
    "A job that ended with exit code 0 used its GPU; with 4 it did not, whatever its own output says.",
    "`--format json` prints a versioned document on standard output; messages are on standard error.",
    "An error names the command to type next.",
)


def skill() -> str:
    """The guide as a skill: `SKILL.md` with its front matter."""
    head = (
        "---",
        "name: gpuproof",
        (
            "description: Check, plan, run and verify GPU jobs (PyTorch, TensorFlow, Keras) on AWS SageMaker and EC2 with the gpuproof "
            "command. Use it when a script, notebook, job definition or endpoint uses or should use a GPU on AWS, when a log shows a CUDA, "
            "NCCL or SageMaker error, or when the cost of GPUs matters."
        ),
        "---",
        "",
    )
    return "\n".join([*head, *guide()]) + "\n"


def guide() -> Iterator[str]:
    """The lines of the guide."""
    yield from ("# GPUproof", "", f"> {SUMMARY}", "", 'Install: `pip install gpuproof`; tools for MCP clients: `pip install "gpuproof[mcp]"`', "and `gpuproof mcp`.", "")  # fmt: skip
    yield from ("## How to use it", "", *(f"- {habit}" for habit in _HABITS), "")
    yield from ("## Tasks", "")
    for task in TASKS:
        yield f"- {task.task}: {', then '.join(f'`{command}`' for command in task.commands)}"
    yield from (
        "",
        "## Exit codes",
        "",
        *(f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items()),
        "",
    )
    yield from ("## Commands", "", "`gpuproof COMMAND --help` describes every option.", "")
    parsers = root_parser().commands
    for name, command in COMMANDS.items():
        options = [
            option
            for option, action in parsers[name].options.items()
            if option.startswith("--") and action.help != argparse.SUPPRESS and option not in _EVERYWHERE
        ]
        yield f"- `gpuproof {name}`: {command.summary}{': ' if options else ''}{', '.join(f'`{option}`' for option in options)}"
