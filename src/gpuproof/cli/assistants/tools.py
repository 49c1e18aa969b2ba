"""The tools of `gpuproof mcp`: which commands an assistant may call, with which of their arguments.

An option that is not listed here cannot be used: those that write files, start another program or skip a question are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.cli.main import COMMANDS, root_parser
from gpuproof.cli.parser import Parser, nearest
from gpuproof.errors import UsageError

SCRIPT_ARGUMENTS = "script_arguments"
"""The argument of a tool with the words after `--`, which are passed to the script."""


@dataclass(frozen=True)
class Tool:
    """One tool: a command with some of its arguments.

    Args:
        name: as the client calls it.
        command: the command of `gpuproof`.
        arguments: names of its arguments and options, with underscores: `paths`, `instance_type`.
        description: what the command's summary does not say.
        fixed: words that every call has.
        text: the argument that is passed on standard input in place of the first one; None if there is none.
        passes_arguments: whether it has `script_arguments`.
        omit: members of the command's JSON document that are too long for what they say.
        spends: whether it may cost money or changes something; only with `--allow-spend`.
        deletes: whether it ends or deletes something.
    """

    name: str
    command: str
    arguments: tuple[str, ...]
    description: str = ""
    fixed: tuple[str, ...] = ()
    text: str | None = None
    passes_arguments: bool = False
    omit: tuple[str, ...] = ()
    spends: bool = False
    deletes: bool = False

    @property
    def summary(self) -> str:
        """What it does, in a sentence or two."""
        summary = COMMANDS[self.command].summary
        return f"{summary[0].upper()}{summary[1:]}. {self.description}".strip()


_PLACE = ("on", "region")
_JOB = (
    *("target", "job", "name", "framework", "framework_version", "instance_type", "gpu", "instance_count"),
    *("max_duration", "stall_timeout", "require_gpu", "hyperparameter", "input", "env", "distribution"),
    *("processes_per_host", "spot", "fallback", "fresh", "dry_run"),
)
_SHAPE = (
    *("gpu", "gpu_memory", "total_gpu_memory", "fits", "count", "region", "on", "for", "max_price", "spot"),
    *("framework", "arch", "sort"),
)
_ENDPOINT = (
    *(
        "model",
        "job",
        "name",
        "code",
        "framework",
        "framework_version",
        "env",
        "instance_type",
        "instance_count",
    ),
    *("require_gpu", "request", "content_type", "ttl", "region", "dry_run"),
)
TOOLS = (
    Tool(
        "check",
        "check",
        ("paths", "select", "extend_select", "ignore", "sagemaker_sdk", "instance_type", "region", "markdown"),
        "Imports and changes nothing. Call it before anything that costs money.",
    ),
    Tool("rule", "rule", ("code",)),
    Tool(
        "plan",
        "plan",
        (
            *("script", "job", "input", "epochs", "steps_per_epoch", "deadline", "budget", "spot", "region", "on"),
            *("gpus", "gpu", "fit", "data", "inference", "code", "request", "content_type"),
        ),
        "Runs the script for a few steps in a process of its own, in which it cannot change files; takes up to a few minutes.",
        passes_arguments=True,
        omit=("operators",),
    ),
    Tool("gpus", "gpus", ("names", *_SHAPE)),
    Tool("explain", "explain", ("target", "instance_type", *_PLACE), "Pass a file, a run or the text itself.", text="text"),
    Tool("doctor", "doctor", ("quick", "full", "instance_type", "region")),
    Tool("ps", "ps", ("all", *_PLACE)),
    Tool("verdict", "show", ("run_name", *_PLACE), "The verdict says whether the GPU did the work, with the measurements."),
    Tool(
        "audit",
        "audit",
        ("job", "days", "since", "region", "by"),
        "Only reads. `job` shows one in detail; `by` user, type, week or tag:KEY adds sums; CloudWatch bills $0.01 for 1,000 metrics, three for each host of a job.",
    ),
    Tool(
        "cleanup",
        "cleanup",
        ("region", "all_regions", "all", "gpuproof", "older_than", "idle_for", "kind"),
        "Only lists: the tool deletes nothing.",
    ),
    Tool(
        "run",
        "run",
        (*_JOB, *_PLACE),
        "Returns when the run has been submitted; `verdict` shows how it goes on. On AWS, its highest possible cost counts "
        "against the limit of --allow-spend.",
        fixed=("--detach",),
        passes_arguments=True,
        spends=True,
    ),
    Tool(
        "deploy",
        "deploy",
        _ENDPOINT,
        "Needs `ttl`: what the endpoint costs until then counts against the limit of --allow-spend. Takes several minutes.",
        spends=True,
    ),
    Tool("stop", "stop", ("run_names", *_PLACE), spends=True, deletes=True),
    Tool(
        "delete",
        "delete",
        ("names", "dry_run", "region"),
        "Only endpoints that GPUproof created.",
        spends=True,
        deletes=True,
    ),
)  # fmt: skip


def input_schema(tool: Tool) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, from the command's parser."""
    actions = _actions(tool)
    properties = {name: _property(action) for name, action in actions.items()}
    if tool.text is not None:
        properties[tool.text] = {
            "type": "string",
            "description": "the text itself, in place of a file or a run",
        }
    if tool.passes_arguments:
        properties[SCRIPT_ARGUMENTS] = {
            "type": "array",
            "items": {"type": "string"},
            "description": "arguments of the script itself",
        }
    required = [
        name
        for name, action in actions.items()
        if action.required and not action.option_strings and action.nargs not in ("?", "*")
    ]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def command_words(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """The command line of a call, without `gpuproof`.

    Raises:
        UsageError: an argument is unknown, has the wrong type, or would be taken for an option.
    """
    actions = _actions(tool)
    positional: list[str] = []
    options: list[str] = []
    script: list[str] = []
    extra = {SCRIPT_ARGUMENTS} if tool.passes_arguments else set[str]()
    for name in arguments:
        if name not in actions and name not in extra and name != tool.text:
            near = nearest(name, [*actions, *extra])
            raise UsageError(
                f"The tool {tool.name} has no argument {name}.",
                remedy=f"Did you mean {near}?" if near else f"It has: {', '.join(actions)}.",
            )
    for name, action in actions.items():
        if (value := arguments.get(name)) is None:
            continue
        if action.option_strings:
            options += _option(tool, name, action, value)
        else:
            positional += _texts(tool, name, value)
    if tool.text is not None and arguments.get(tool.text) is not None:
        if positional:
            raise UsageError(f"Pass {tool.text} or {next(iter(actions))}, not both.")
        positional = ["-"]
    elif (option := next((word for word in positional if word.startswith("-")), None)) is not None:
        raise UsageError(f"{option} is not a name or a path.", remedy="Options are arguments of the tool.")
    if tool.passes_arguments and arguments.get(SCRIPT_ARGUMENTS):
        script = ["--", *_texts(tool, SCRIPT_ARGUMENTS, arguments[SCRIPT_ARGUMENTS])]
    return [tool.command, *positional, *options, *tool.fixed, *script]


def _actions(tool: Tool) -> dict[str, argparse.Action]:
    """The arguments of a tool in its order.

    Raises:
        KeyError: the command has no such argument.
    """
    parser: Parser = root_parser([tool.command]).commands[tool.command]
    known = {_name(action): action for action in parser.arguments}
    return {name: known[name] for name in tool.arguments}


def _name(action: argparse.Action) -> str:
    long = [name for name in action.option_strings if name.startswith("--")]
    return (long[0].removeprefix("--") if long else action.dest).replace("-", "_")


def _is_list(action: argparse.Action) -> bool:
    return action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _property(action: argparse.Action) -> dict[str, Any]:
    description = (action.help or "").replace("%%", "%")
    if action.nargs == 0:
        return {"type": "boolean", "description": description}
    kinds: dict[Any, str] = {int: "integer", float: "number"}
    item: dict[str, Any] = {"type": kinds.get(action.type, "string")}
    if action.choices is not None:
        item["enum"] = list(action.choices)
    if _is_list(action):
        return {"type": "array", "items": item, "description": description}
    return {**item, "description": description}


def _option(tool: Tool, name: str, action: argparse.Action, value: Any) -> list[str]:
    """The words of one option; an option with a value is one word, so that the value cannot become another option."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError(f"{name} of the tool {tool.name} is true or false.")
        negative = next((word for word in action.option_strings if word.startswith("--no-")), None)
        if value:
            return [next(word for word in action.option_strings if word.startswith("--"))]
        return [negative] if negative else []
    flag = next(word for word in action.option_strings if word.startswith("--"))
    texts = _texts(tool, name, value)
    if len(texts) > 1 and not _is_list(action):
        raise UsageError(f"{name} of the tool {tool.name} takes one value.")
    return [f"{flag}={text}" for text in texts]


def _texts(tool: Tool, name: str, value: Any) -> list[str]:
    values: list[Any] = value if isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise UsageError(f"{name} of the tool {tool.name} takes text, numbers, or a list of them.")
    return [str(item) for item in values]
