"""Options: the fields of models that have a flag. Flags, their help, completion and documentation follow from the fields."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

COMMANDS: dict[str, tuple[str, ...]] = {
    "run": (
        "gpuproof.jobs.models.script_jobs:TrainingJob",
        "gpuproof.jobs.models.script_jobs:ProcessingJob",
        "gpuproof.jobs.models.machine:MachineJob",
    ),
    "notebook create": ("gpuproof.jobs.models.notebook:NotebookJob",),
    "deploy": ("gpuproof.jobs.models.endpoint:EndpointJob",),
    "transform": ("gpuproof.jobs.models.transform:TransformJob",),
}
"""The models whose fields are the options of a command."""

Overrides = dict[str, Any]
"""Values of flags by the keys of their fields; a flag that was not given is missing, None or empty."""

JOB, AWS = "the job (flags override the file)", "on AWS (flags override the file)"
EC2_ONLY = "only with --on ec2"
"""Groups of the flags of `gpuproof run`."""

KeyNames = tuple[str, ...]
"""The keys that lead to a field, as in `("resources", "gpu")`."""

Form = Literal["text", "integer", "number", "switch", "list", "pairs"]


@dataclass(frozen=True)
class Option:
    """Marks a field as an option of the command line; metadata of the field's type.

    Args:
        metavar: the name of the value in `--help`.
        flag: by default the key with hyphens; without `--`, the name of a positional argument that the command adds itself.
        short: a further name, such as `-p`.
        group: the heading in `--help`.
        adds: the values of a list are added to those of the file; by default they replace them.
        commas: a list is one value, separated by commas; by default the flag is repeated.
        replaces: dotted keys whose values in the file have no effect if the flag is given.
    """

    metavar: str | None = None
    flag: str = ""
    short: str = ""
    group: str = ""
    adds: bool = False
    commas: bool = False
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandOption:
    """A flag of a command.

    Args:
        flag: such as `--instance-type`.
        key: the name of its value among the parsed arguments: that of the field.
        form: how the value is written: `list` and `pairs` (NAME=VALUE) are repeated, `switch` has a `--no-` form.
        help: without a full stop.
        choices: the values that it takes; any if empty.
        example: a value; of a pair, as in `epochs=5`.
        is_json: the values of pairs are JSON, or text that is none.
        fields: the fields that it sets, one in each of the models that have it, with what their models say of it.
    """

    flag: str
    short: str
    key: str
    form: Form
    metavar: str | None
    group: str
    help: str
    choices: tuple[str, ...]
    example: str
    is_json: bool
    fields: dict[KeyNames, Option]

    @property
    def shown(self) -> str:
        """How messages name it."""
        return self.short or self.flag

    def to_json(self) -> dict[str, Any]:
        """What the command line needs of it, without defaults."""
        values = {
            name: getattr(self, name)
            for name in ("short", "key", "form", "metavar", "group", "choices", "help")
        }
        return {"flag": self.flag, **{name: value for name, value in values.items() if value}}


def command_options(command: str) -> dict[str, CommandOption]:
    """Returns the options of a command by flag, in the order of the fields; imports its models."""
    models: list[type[BaseModel]] = []
    for place in COMMANDS[command]:
        module, _, name = place.partition(":")
        models.append(getattr(import_module(module), name))
    return model_options(*models)


def model_options(*models: type[BaseModel]) -> dict[str, CommandOption]:
    """Returns the options of models by flag. Several fields with the same flag are one option, described by the first."""
    options: dict[str, CommandOption] = {}
    for model in models:
        flags = {keys[-1]: _flag(keys[-1], option) for keys, _, option in _fields(model)}
        for keys, info, option in _fields(model):
            flag = _flag(keys[-1], option)
            known = options.get(flag)
            found = _option(flag, keys, info, option, flags)
            options[flag] = found if known is None else _combined(known, found)
    return options


def _fields(model: type[BaseModel], above: KeyNames = ()) -> Iterator[tuple[KeyNames, FieldInfo, Option]]:
    """The fields with flags of a model, and of the models inside it."""
    for key, info in model.model_fields.items():
        option = next((part for part in info.metadata if isinstance(part, Option)), None)
        if option is not None:
            yield (*above, key), info, option
        inner = _core(info.annotation)
        if hasattr(inner, "model_fields"):
            yield from _fields(inner, (*above, key))


def _flag(key: str, option: Option) -> str:
    return option.flag or f"--{key.replace('_', '-')}"


def _option(
    flag: str, keys: KeyNames, info: FieldInfo, option: Option, flags: Mapping[str, str]
) -> CommandOption:
    core = _core(info.annotation)
    choices = tuple(str(choice) for choice in get_args(core)) if get_origin(core) is Literal else ()
    return CommandOption(
        flag=flag,
        short=option.short,
        key=keys[-1],
        form="text" if option.commas else _form(core),
        metavar=option.metavar,
        group=option.group,
        help=_help(info, flags),
        choices=choices,
        example=_example(info),
        is_json=get_origin(core) is dict and _core(get_args(core)[1]) is Any,
        fields={keys: option},
    )


_BACKENDS = {"sagemaker": "SageMaker", "ec2": "EC2"}


def _combined(first: CommandOption, second: CommandOption) -> CommandOption:
    """One option of two with the same flag; what a backend does with it is said where that differs."""
    home, other = next(reversed(first.fields))[0], next(iter(second.fields))[0]
    text = first.help
    if home in _BACKENDS and other in _BACKENDS and second.help not in text:
        text = f"on {_BACKENDS[home]}: {text}; on {_BACKENDS[other]}: {second.help}"
    key = second.key if first.flag == f"--{second.key}" else first.key
    return replace(first, key=key, help=text, fields={**first.fields, **second.fields})


def _core(annotation: Any) -> Any:
    """The type of a value without None and metadata."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (Union, types.UnionType):
            annotation = next(part for part in get_args(annotation) if part is not type(None))
        else:
            return annotation


def _form(core: Any) -> Form:
    simple: dict[Any, Form] = {bool: "switch", int: "integer", float: "number", dict: "pairs", tuple: "list"}
    return simple.get(get_origin(core) or core, "text")


def _example(info: FieldInfo) -> str:
    for example in info.examples or ():
        if isinstance(example, str):
            return example
        if isinstance(example, dict):
            return "=".join(map(str, next(iter(example.items()))))
    return "NAME=VALUE"


_KEY = re.compile(r"`([a-z_]+)`")


def _help(info: FieldInfo, flags: Mapping[str, str]) -> str:
    """The description of a field as the help of its flag: keys become flags, and the default or an example is added."""
    text = (info.description or "").rstrip(".")
    word = text.partition(" ")[0]
    if word[1:].islower() or len(word) == 1:
        text = text[:1].lower() + text[1:]
    text = _KEY.sub(lambda key: flags.get(key[1], key[0]), text)
    default = "" if info.is_required() or info.default_factory is not None else info.default
    if default not in (None, "", False, ()):
        return f"{text} (default: {'yes' if default is True else default})"
    example = next((example for example in info.examples or () if isinstance(example, str)), text)
    return text if example in text else f"{text} (for example {example})"
