"""Turns pydantic's validation errors into sentences that name the key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from gpuproof.errors import InvalidJob, Problem
from gpuproof.jobs.suggestions import KEY_ALIASES, did_you_mean, normalize_key

KeyPath = tuple[str | int, ...]
"""The keys that lead to a value, as in `("resources", "gpu")`; `()` is the job itself."""

_SENTENCES = {
    "string_type": "must be text, not {shown}",
    "int_type": "must be a whole number, not {shown}",
    "int_from_float": "must be a whole number, not {shown}",
    "bool_type": "must be true or false, not {shown}",
    "dict_type": "must be a mapping of keys to values, not {shown}",
    "model_type": "must be a mapping of keys to values, not {shown}",
    "model_attributes_type": "must be a mapping of keys to values, not {shown}",
    "list_type": "must be a list, not {shown}",
    "tuple_type": "must be a list, not {shown}",
    "greater_than_equal": "must be at least {ge}, not {shown}",
    "less_than_equal": "must be at most {le}, not {shown}",
}

_CONSEQUENCES = ("default_factory_not_called",)
"""Errors that pydantic reports only as a consequence of another error."""


@dataclass(frozen=True)
class FieldProblem:
    """A problem with one key of a job, as two parts of a sentence; the context goes between them.

    Args:
        path: where in the job.
        subject: the beginning of the sentence, as in `unknown key 'instance_typ'`.
        rest: its end, punctuation included, as in `; did you mean 'instance_type'?`.
        needs_text: the value is a number, a boolean or a mapping where text is required.
        missing: the path of a key that is missing; `path` is that of the mapping that lacks it.
    """

    path: KeyPath
    subject: str
    rest: str
    needs_text: bool = False
    missing: KeyPath = ()

    def sentence(self, owner: str = "") -> str:
        """The problem in one line.

        Args:
            owner: what the key belongs to, as in `job 'train'`; may be empty.
        """
        return f"{self.subject}{f' in {owner}' if owner else ''}{self.rest}"


class InvalidFields(InvalidJob):
    """A job whose keys or values are invalid.

    Args:
        field_problems: one for each invalid key.
        owner: what the keys belong to, as in `TrainingJob`.
    """

    def __init__(self, field_problems: Sequence[FieldProblem], owner: str) -> None:
        problems = [Problem(problem.sentence(owner), path=problem.path) for problem in field_problems]
        super().__init__("\n".join(problem.message for problem in problems), problems=problems)
        self.field_problems = tuple(field_problems)


class FieldError(ValueError):
    """A violated rule about several keys, with the path of the key to report."""

    def __init__(self, path: KeyPath, text: str) -> None:
        super().__init__(text)
        self.path = path


def collect_problems(error: ValidationError, model: type[BaseModel]) -> list[FieldProblem]:
    """Returns one problem per invalid key.

    Args:
        error: raised by pydantic.
        model: the model that was validated; its keys are suggested for unknown ones.
    """
    found = (details for details in error.errors(include_url=False) if details["type"] not in _CONSEQUENCES)
    return [_problem(details, model) for details in found]


def format_value(value: Any) -> str:
    """Formats a value as in YAML, shortened to 60 characters."""
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value) if isinstance(value, int | float) else repr(str(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def format_path(path: KeyPath) -> str:
    """Formats a path as one word, as in `resources.gpu`, `arguments[2]` and `inputs['/opt/ml/processing/input']`."""
    plain = (isinstance(key, str) and re.fullmatch(r"[\w-]+", key) for key in path)
    return "".join(f".{key}" if word else f"[{key!r}]" for key, word in zip(path, plain, strict=True)).lstrip(
        "."
    )


def _problem(details: Any, model: type[BaseModel]) -> FieldProblem:
    path = tuple(key for key in details["loc"] if key != "[key]")
    kind = details["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path, model)
    if kind == "missing":
        return FieldProblem(path[:-1], f"the key '{format_path(path)}' is missing", "", missing=path)
    error = details.get("ctx", {}).get("error")
    if isinstance(error, FieldError):
        path = (*path, *error.path)
    subject = f"'{format_path(path)}'"
    if isinstance(error, ValueError):
        return FieldProblem(path, subject, f": {error}")
    if kind == "literal_error":
        choices = [choice for choice in get_args(_annotation(model, path)) if isinstance(choice, str)]
        near = did_you_mean(str(details["input"]), choices)
        return FieldProblem(
            path, subject, f" must be {_either(details)}, not {format_value(details['input'])}{near}"
        )
    sentence = _SENTENCES.get(kind) or str(details["msg"])
    return FieldProblem(
        path,
        subject,
        " " + sentence.format(shown=format_value(details["input"]), **details.get("ctx", {})),
        needs_text=kind == "string_type" and details["input"] is not None,
    )


def _unknown_key(path: KeyPath, model: type[BaseModel]) -> FieldProblem:
    *parents, key = path
    parent = _model_at(model, tuple(parents))
    place = f" under '{format_path(tuple(parents))}'" if parents else ""
    known = list(_keys(parent))
    subject = f"unknown key '{key}'{place}"
    if not parents:
        home = _containing_key(str(key), parent)
        if home:
            return FieldProblem(path, subject, f"; it belongs under '{home}'")
    near = did_you_mean(str(key), known) or f"; {_all_keys(known)}"
    return FieldProblem(path, subject, _other_kind(str(key), parent) or near)


def _all_keys(known: list[str]) -> str:
    if len(known) > 8:
        return "list the valid keys with: gpuproof schema"
    return f"the valid keys are {', '.join(known)}"


def _containing_key(key: str, model: type[BaseModel]) -> str:
    """The nested mapping that has this key, or an empty text."""
    word = KEY_ALIASES.get(normalize_key(key), key)
    for name, field in model.model_fields.items():
        nested = _nested(field.annotation)
        if nested and word in nested.model_fields and word not in model.model_fields:
            return f"{name}' as '{word}" if word != key else name
    return ""


def _other_kind(key: str, model: type[BaseModel]) -> str:
    hints: dict[str, str] = getattr(model, "foreign_keys", {})
    return f"; {hints[key]}" if key in hints else ""


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    return _nested(_annotation(model, path)) or model if path else model


def _annotation(model: type[BaseModel], path: KeyPath) -> Any:
    """The type of the value at a path; for a mapping with free keys, the type of its values."""
    here: Any = model
    for key in path:
        nested = _nested(here)
        if nested and key in (keys := _keys(nested)):
            here = keys[str(key)]
    return here


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    """The types of a model's keys, and of those of the other forms that it is written in."""
    forms: tuple[type[BaseModel], ...] = (model, *getattr(model, "other_forms", ()))
    return {name: field.annotation for form in reversed(forms) for name, field in form.model_fields.items()}


def _nested(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _nested(part))), None)


def _either(details: Any) -> str:
    return str(details.get("ctx", {}).get("expected", "one of the known words"))
