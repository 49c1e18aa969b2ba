"""The Trainers of transformers and TRL in a module, and their arguments: written in code or passed by a job."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_to
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.trainers.argument_files import files_with
from gpuproof.linter.knowledge.trainers.tables import members
from gpuproof.linter.project import Project
from gpuproof.linter.source.span import Span

_ARGUMENTS = re.compile(
    r"^(transformers|trl)\.(?:\w+\.)*(TrainingArguments|Seq2SeqTrainingArguments|[A-Z]+[a-z]*Config)$"
)
_TRAINERS = re.compile(r"^(transformers|trl)\.(?:\w+\.)*(\w*Trainer)$")
_TRL_CONFIGS = frozenset(
    "SFTConfig DPOConfig GRPOConfig RewardConfig KTOConfig ORPOConfig CPOConfig BCOConfig OnlineDPOConfig RLOOConfig".split()  # noqa: SIM905 - reads better
)
"""The configurations of TRL that are `TrainingArguments`."""
_PARSES = ("parse_args_into_dataclasses", "parse_args_and_config")
_READS = ("parse_json_file", "parse_yaml_file", "parse_args_and_config")
"""Methods of the parsers that read the command line, and those that read a settings file."""
_LEAST = 3
"""A settings file with so many names of arguments is one for the Trainer."""
_FLAGS = {"true": True, "false": False}
_STRATEGY = re.compile(r"(?:^|\.)(?:IntervalStrategy|EvaluationStrategy|SaveStrategy)\.([A-Z]+)$")


class Arguments(NamedTuple):
    """The arguments of a Trainer.

    Attributes:
        module: the module with the call, or the script that gets the hyperparameters.
        owner: `TrainingArguments`, `Seq2SeqTrainingArguments` or `SFTConfig`, …
        library: `transformers` or `trl`.
        call: the call that creates them; None if they come from a job or a settings file.
        job: the job whose hyperparameters or command they are.
        passed: those that are passed, by name.
        open: whether others may be passed.
        span: the position of all of them.
    """

    module: Module
    owner: str
    library: str
    call: Call | None
    job: JobDefinition | None
    passed: Mapping[str, Value]
    open: bool
    span: Span

    def get(self, name: str) -> Value:
        """The value of an argument; absent only if it certainly is not passed."""
        if name in self.passed:
            return self.passed[name]
        return UNKNOWN if self.open else ABSENT

    def where(self, *names: str) -> Span:
        """The position of the first of these arguments that is passed, or else of all of them."""
        for name in names:
            if self.call is not None and name in self.call.keywords:
                keyword = next(item for item in self.call.node.keywords if item.arg == name)
                return self.module.span(keyword)
            value = self.passed.get(name)
            if value is not None and value.span is not None:
                return value.span
        return self.span


class TrainerCall(NamedTuple):
    """A call that creates a Trainer of transformers or TRL.

    Attributes:
        name: `Trainer`, `SFTTrainer`, …
        own: the class of the project that it creates, which derives from that Trainer.
    """

    call: Call
    library: str
    name: str
    own: ast.ClassDef | None


def argument_sets(module: Module, project: Project) -> list[Arguments]:
    """The arguments of Trainers in a module: those of calls, and those that `HfArgumentParser` and `TrlParser` read."""
    return [*written_arguments(module), *_parsed_arguments(module, project)]


def written_arguments(module: Module) -> list[Arguments]:
    """The calls in a module that create arguments of Trainers."""
    return module.derived(_written)


def _written(module: Module) -> list[Arguments]:
    if not module.imports("transformers", "trl"):
        return []
    found: list[Arguments] = []
    for call in all_calls(module):
        match = _ARGUMENTS.match(call.name or "")
        if match is None or not (match[2].endswith("TrainingArguments") or match[2] in _TRL_CONFIGS):
            continue
        passed = {name: _normal(call, name, value) for name, value in call.arguments().items()}
        if call.node.args and "output_dir" not in passed:
            passed["output_dir"] = call.argument("output_dir", 0)
        found.append(
            Arguments(
                module,
                match[2],
                match[1],
                call,
                None,
                passed,
                call.is_open or len(call.node.args) > 1,
                call.span,
            )
        )
    return found


def trainer_calls(module: Module) -> list[TrainerCall]:
    """The calls in a module that create Trainers of transformers or TRL, also of the project's own subclasses."""
    return module.derived(_trainers)


def trainer_class(module: Module, node: ast.expr) -> tuple[str, str] | None:
    """The library and the name of the Trainer that an expression names, also through classes of the project."""
    for _ in range(6):
        match = _TRAINERS.match(module.qualified(node) or "")
        if match:
            return match[1], match[2]
        found = find_definition(module, node)
        if found is None or not isinstance(found.node, ast.ClassDef) or not found.node.bases:
            return None
        module, node = found.module, found.node.bases[-1]
    return None


def arguments_of(trainer: TrainerCall) -> Arguments | None:
    """The arguments that a Trainer gets; None if they are unknown."""
    given = trainer.call.expression("args", 1)
    made = creations(trainer.call.module, given) if given is not None else []
    if len(made) != 1:
        return None
    return next(
        (
            item
            for item in written_arguments(made[0].module)
            if item.call is not None and item.call.node is made[0].node
        ),
        None,
    )


def evaluation_strategy(arguments: Arguments) -> Value:
    """The value of `eval_strategy`, under either of its names."""
    value = arguments.get("eval_strategy")
    return value if not value.is_absent else arguments.get("evaluation_strategy")


def strategy_name(arguments: Arguments) -> str:
    """The name under which the arguments have `eval_strategy`."""
    return "evaluation_strategy" if "evaluation_strategy" in arguments.passed else "eval_strategy"


def is_set_later(arguments: Arguments, *names: str) -> bool:
    """Whether code of the module assigns one of these attributes: `args.eval_strategy = ...`."""
    return any(
        node.attr in names and isinstance(node.ctx, ast.Store)
        for node in arguments.module.nodes(ast.Attribute)
    )


def _trainers(module: Module) -> list[TrainerCall]:
    found: list[TrainerCall] = []
    for call in all_calls(module):
        if not call.method.endswith("Trainer"):
            continue
        base = trainer_class(module, call.node.func)
        if base is None:
            continue
        own = find_definition(module, call.node.func)
        node = own.node if own is not None and isinstance(own.node, ast.ClassDef) else None
        found.append(TrainerCall(call, base[0], base[1], node))
    return found


def _normal(call: Call, name: str, value: Value) -> Value:
    """A value, with members of the enumerations of strategies as their texts."""
    if not value.is_unknown or name not in call.keywords:
        return value
    match = _STRATEGY.search(call.module.qualified(call.keywords[name]) or "")
    return known(match[1].lower(), value.span) if match else value


def _parsed_arguments(module: Module, project: Project) -> Iterator[Arguments]:
    """The arguments that a script parses: hyperparameters and commands of its jobs, and settings files beside it."""
    for call in calls_to(module, "transformers.HfArgumentParser", "trl.TrlParser"):
        owner = _parsed_owner(call)
        if owner is None:
            continue
        library, name = owner
        others = _names_of_others(call)
        if calls_named(module, *_PARSES):
            for job in project.jobs_running(module):
                yield from _of_job(module, library, name, job, others)
        if calls_named(module, *_READS):
            known_names = [*members("transformers", "TrainingArguments"), *members(library, name)]
            for value in files_with(module, known_names, _LEAST):
                if value.span is not None:
                    passed = {str(key): part for key, part in value.parts.items() if key not in others}
                    yield Arguments(module, name, library, None, None, passed, True, value.span)


def _of_job(
    module: Module, library: str, name: str, job: JobDefinition, others: frozenset[str]
) -> Iterator[Arguments]:
    if job.script is not module:
        return
    entries = job.hyperparameters.entries
    if entries is not None and job.passes_arguments:
        passed = {str(key).replace("-", "_"): _parsed(value) for key, value in entries.items()}
        passed = {key: value for key, value in passed.items() if key not in others}
        span = job.where(job.hyperparameters)
        yield Arguments(module, name, library, None, job, passed, not entries.complete, span)
    elif job.start is not None and job.start.arguments:
        words = _of_command(job.start.arguments)
        passed = {key: _parsed(value) for key, value in words if key not in others}
        yield Arguments(module, name, library, None, job, passed, True, job.span)


def _of_command(words: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    """The options of a command line: `--bf16 True`, `--bf16=True`, `--bf16`."""
    for word, following in zip(words, (*words[1:], "--"), strict=True):
        if word.startswith("--") and len(word) > 2:
            name, equals, given = word[2:].partition("=")
            text = given if equals else "true" if following.startswith("--") else following
            yield name.replace("-", "_"), known(text)


def _parsed_owner(call: Call) -> tuple[str, str] | None:
    """The library and the class of the Trainer's arguments among the dataclasses of a parser."""
    classes = call.expression("dataclass_types", 0)
    listed = classes.elts if isinstance(classes, (ast.Tuple, ast.List)) else [classes]
    for node in listed:
        match = _ARGUMENTS.match(call.module.qualified(node) or "") if node is not None else None
        if match and (match[2].endswith("TrainingArguments") or match[2] in _TRL_CONFIGS):
            return match[1], match[2]
    return None


def _names_of_others(call: Call) -> frozenset[str]:
    """The names that another dataclass of a parser takes, which those of the Trainer once had."""
    classes = call.expression("dataclass_types", 0)
    listed = classes.elts if isinstance(classes, (ast.Tuple, ast.List)) else []
    found: set[str] = set()
    for node in listed:
        if call.module.qualified(node) == "trl.ModelConfig":
            found.add("trust_remote_code")
        made = find_definition(call.module, node)
        if made is not None and isinstance(made.node, ast.ClassDef):
            fields = [item.target for item in made.node.body if isinstance(item, ast.AnnAssign)]
            found |= {target.id for target in fields if isinstance(target, ast.Name)}
    return frozenset(found)


def _parsed(value: Value) -> Value:
    """A hyperparameter as `HfArgumentParser` reads it: texts may be flags or numbers."""
    text = value.text
    if text is None or not value.is_known:
        return value
    if text.lower() in _FLAGS:
        return known(_FLAGS[text.lower()], value.span)
    return known(float(text), value.span) if re.fullmatch(r"\d+(\.\d+)?", text) else value
