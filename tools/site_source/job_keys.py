"""The reference of `gpuproof.yaml`, from its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from site_source.pages import Page, plain

KINDS = {
    "TrainingJob": ("Training jobs", "training"),
    "ProcessingJob": ("Processing jobs", "processing"),
    "EndpointJob": ("Endpoints", "endpoint"),
    "NotebookJob": ("Notebook instances", "notebook"),
    "MachineJob": ("Machines", "machine"),
}
"""Heading and `kind` of each kind of job by the name of its definition."""

PARTS = (
    "Resources",
    "Distribution",
    "Checkpoint",
    "IfGpuUnused",
    "Notify",
    "ProcessingInput",
    "ProcessingOutput",
    "SageMakerSettings",
    "EC2Settings",
    "EC2Region",
)
"""Definitions that keys of jobs refer to, in the order of the page."""


def job_keys_page() -> Page:
    """The page: each kind of job with its keys, then the mappings that are values of keys."""
    from gpuproof.jobs import json_schema

    definitions: Mapping[str, Any] = json_schema()["$defs"]
    lines = [
        "# `gpuproof.yaml`: all keys\n",
        "Generated from the JSON schema ([gpuproof schema](cli.md#gpuproof-schema)), with which editors complete and check the file.",
        "[Job file](job-file.md) explains how to write one. Each key of a job is also a flag of its command or a keyword in Python.\n",
        "A file describes one job, or several under `jobs:` with what they share under `defaults:`. `kind:` says which kind a job is.\n",
    ]
    for name, (heading, kind) in KINDS.items():
        lines += [
            f"## {heading}\n",
            f"`kind: {kind}`{' (the default)' if kind == 'training' else ''}. {definitions[name].get('description', '')}\n",
        ]
        lines += _keys(definitions[name], kind)
    lines.append("## Mappings\n")
    for name in PARTS:
        lines += [
            f"### {name}\n",
            f"{definitions[name].get('description', '')}\n",
            *_keys(definitions[name], name.lower()),
        ]
    return Page("job-file-keys.md", "\n".join(lines))


def _keys(definition: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """A definition list of the keys."""
    required = set(definition.get("required", ()))
    for key, schema in definition["properties"].items():
        yield f"`{key}`{{ #{prefix}-{key.replace('_', '-')} }}"
        facts = [_type(schema)]
        if key in required:
            facts.append("**required**")
        if schema.get("default") not in (None, [], {}, ""):
            facts.append(f"default `{_yaml(schema['default'])}`")
        if examples := schema.get("examples"):
            facts.append(f"for example `{_yaml(examples[0])}`")
        yield f":   {plain(schema.get('description', ''))}  "
        yield f"    <small>{'; '.join(facts)}</small>\n"


def _type(schema: Mapping[str, Any]) -> str:
    """The values that a key takes, in words."""
    if "enum" in schema:
        return " or ".join(f"`{_yaml(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{_yaml(schema['const'])}`"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name in PARTS else "mapping"
    if "anyOf" in schema:
        kinds = [_type(option) for option in schema["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    types = schema.get("type", "any value")
    names = {"object": "mapping", "array": "list", "string": "text", "boolean": "true or false"}
    words = [
        names.get(word, word) for word in ([types] if isinstance(types, str) else types) if word != "null"
    ]
    text = " or ".join(words)
    if types == "array" and (items := schema.get("items")):
        text = f"list of {_type(items)}"
    return text


def _yaml(value: object) -> str:
    """A value in YAML's flow style, which JSON is."""
    return value if isinstance(value, str) else json.dumps(value)
