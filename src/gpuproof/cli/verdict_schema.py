"""The JSON schema of `verdict.json`, from the dataclasses of the verdict and what their docstrings say of the keys."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import getdoc
from typing import Any

from gpuproof.agent.verdict import (
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    OCCUPIED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    Verdict,
)
from gpuproof.agent.verdict.schema import OPTIONAL_KEYS, VERSION

_OUTCOMES = (USED, PARTLY_USED, OCCUPIED, IDLE, CPU_ONLY, NO_GPU_EXPECTED, UNKNOWN)
_SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_CONSTANTS = {"None": "null", "True": "true", "False": "false"}
_PARAMETER = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", re.MULTILINE)


def verdict_schema() -> dict[str, Any]:
    """The schema: draft 2020-12. Further keys are allowed, because a newer GPUproof may add some to the same version."""
    definitions: dict[str, Any] = {}
    document = _object(Verdict, definitions)
    properties = {"version": {"const": VERSION}, **document["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpuproof:schema:verdict.json:{VERSION}",
        "title": "verdict.json",
        **document,
        "properties": properties,
        "required": ["version", *document["required"]],
        "$defs": dict(sorted(definitions.items())),
    }


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a dataclass; those that it refers to are added to the definitions."""
    hints, described = typing.get_type_hints(kind), _described(kind)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in fields(kind):
        schema = _schema(hints[field.name], definitions)
        if field.name == "outcome":
            schema = _with_values(schema)
        if text := described.get(field.name):
            schema = {"description": text, **schema}
        properties[field.name] = schema
        # Agents of one version always write all keys, except those that have nothing in them.
        is_new = field.default is not MISSING or field.default_factory is not MISSING
        if field.name not in OPTIONAL_KEYS or not is_new:
            required.append(field.name)
    return {
        "description": (getdoc(kind) or "").partition("\n\nArgs:")[0].replace("\n", " "),
        "type": "object",
        "properties": properties,
        "required": required,
    }


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if is_dataclass(hint):
        name = hint.__name__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
        if name not in definitions:
            definitions[name] = {}  # for a type that contains itself
            definitions[name] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if origin in (types.UnionType, typing.Union):
        options = [_schema(option, definitions) for option in inner]
        if all(option.keys() == {"type"} for option in options):
            return {"type": [option["type"] for option in options]}
        return {"anyOf": options}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin is tuple:
        items = [_schema(item, definitions) for item in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (Mapping, dict):
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    raise TypeError(f"{hint} has no form in a JSON schema")


def _with_values(schema: dict[str, Any]) -> dict[str, Any]:
    values: list[str | None] = [*_OUTCOMES]
    if "null" in schema["type"]:
        values.append(None)
    return {**schema, "enum": values}


def _described(kind: Any) -> dict[str, str]:
    """What the docstring says of each field: `name: text`, `name, other: text` for several, or a text that mentions it."""
    found: dict[str, str] = {}
    mentioned: dict[str, str] = {}
    for names, given in _PARAMETER.findall((getdoc(kind) or "").partition("Args:\n")[2]):
        text = re.sub(r"\s+", " ", given).strip()
        for word, value in _CONSTANTS.items():
            text = text.replace(f"`{word}`", f"`{value}`")
        found |= dict.fromkeys(names.split(", "), text)
        for name in re.findall(r"`(\w+)`", text):
            mentioned.setdefault(name, text)
    return {**mentioned, **found}
