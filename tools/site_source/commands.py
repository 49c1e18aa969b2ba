"""Pages of the command line: one for each command, from its own parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module

from build_cli_docs import HEAD, section

from site_source.pages import Page, table

GUIDES = {
    "agent": "watch-images.md",
    "audit": "audit.md",
    "baseline": "compare.md",
    "bench-endpoint": "serving.md",
    "calibrate": "plan.md#calibrate-a-gpu",
    "catalogue": "gpus.md",
    "check": "check.md",
    "cleanup": "cost.md",
    "compare": "compare.md",
    "cost": "cost.md#gpuproof-cost",
    "dashboard": "dashboard.md",
    "delete": "endpoints.md",
    "deploy": "endpoints.md",
    "doctor": "doctor.md",
    "emulator": "emulator.md",
    "explain": "explain.md",
    "gpus": "gpus.md",
    "mcp": "assistants.md",
    "notebook": "notebooks.md",
    "package": "serving.md",
    "plan": "plan.md",
    "predict": "endpoints.md",
    "receipt": "receipts.md",
    "rule": "rules/README.md",
    "run": "running-jobs.md",
    "schema": "job-file.md",
    "serve": "serving.md",
    "setup": "aws-account.md",
    "shell": "ec2.md",
    "skill": "assistants.md",
    "transform": "endpoints.md",
    "verdict": "watch-clusters.md",
    "verify": "receipts.md",
    "watch": "watch.md",
}
"""The page of `docs/` that explains a command; those that are missing here are explained by `running-jobs.md`."""


def command_pages() -> Iterator[Page]:
    """The list of commands, and a page for each."""
    from gpuproof.cli.main import COMMANDS, GROUPS

    parsers = command_parsers()
    lists = [
        f"## {group}\n\n"
        + table(
            ("Command", ""),
            [(f"[`{name}`](cli/{name}.md)", command.summary) for name, command in commands.items()],
        )
        for group, commands in GROUPS.items()
    ]
    introduction = HEAD.partition("\n\n")[2].partition("## Exit codes")[0]
    introduction = re.sub(r"^Written by .*? parsers\. ", "", introduction, flags=re.DOTALL)
    yield Page(
        "cli/index.md",
        "\n".join(["# Commands", "", *lists, introduction]) + "\n[Exit codes](exit-codes.md)\n",
    )
    for name in COMMANDS:
        text = "\n".join(section(f"gpuproof {name}", parsers[name])).removeprefix("## ")
        text = re.sub(r"^\| (.+) \| \|$", r"| \1 | meaning |", text, flags=re.MULTILINE)
        guide = "\n[Guide](GUIDE) · [Exit codes](exit-codes.md) · [All commands](cli.md)\n"
        yield Page(f"cli/{name}.md", f"# {text}{guide.replace('GUIDE', GUIDES.get(name, 'running-jobs.md'))}")


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its name."""
    from gpuproof.cli.main import COMMANDS

    commands = argparse.ArgumentParser(prog="gpuproof").add_subparsers()
    for command in COMMANDS.values():
        import_module(f"gpuproof.cli.{command.module}").add_parser(commands)
    return commands.choices


def command_anchors() -> dict[str, str]:
    """The page of each heading of `docs/cli.md`: `cli/run.md` for `docs/cli.md#gpuproof-run`."""
    anchors = {
        "docs/cli.md#exit-codes": "exit-codes.md",
        "docs/cli.md#json-output": "cli/index.md#json-output",
    }
    for name, parser in command_parsers().items():
        first, *others = re.findall(
            r"^## (.*)$", "\n".join(section(f"gpuproof {name}", parser)), re.MULTILINE
        )
        anchors[f"docs/cli.md#{first.replace(' ', '-')}"] = f"cli/{name}.md"
        for heading in others:
            anchor = heading.replace(" ", "-")
            anchors[f"docs/cli.md#{anchor}"] = f"cli/{name}.md#{anchor}"
    return anchors
