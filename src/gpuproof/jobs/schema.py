"""JSON schema of `gpuproof.yaml`, generated from the models, with which editors complete and check the file."""

from __future__ import annotations

from typing import Any

from gpuproof.jobs import kinds
from gpuproof.jobs.distribution.launchers import LAUNCHERS
from gpuproof.jobs.distribution.spec import Distribution, SageMakerDistribution
from gpuproof.jobs.models.ec2 import MAX_REGIONS, EC2Region, EC2Settings
from gpuproof.jobs.models.instance_job import KNOWN_FRAMEWORKS
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.parts import Checkpoint, IfGpuUnused, ProcessingInput, ProcessingOutput, Resources
from gpuproof.jobs.models.sagemaker import SageMakerSettings
from gpuproof.jobs.validators import CHANNEL_NAME, PROCESSING_ROOT, REGION

SCHEMA_ID = "urn:gpuproof:schema:gpuproof.yaml:1"

_IN_JOBS = "InJobs"
"""Suffix of the definitions of jobs under `jobs`, where the key is the name; of kinds that need a name otherwise."""

_TEXT = {"type": "string", "minLength": 1}
_NUMBER_OR_TEXT = {"type": ["string", "number"]}


def json_schema() -> dict[str, Any]:
    """Returns the schema of a whole file, one job or several under `jobs`; JSON Schema draft 2020-12."""
    definitions = _definitions()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "gpuproof.yaml",
        "description": "One job, or several under jobs, that GPUproof runs locally, on EC2 or on SageMaker.",
        "type": "object",
        "properties": {
            "jobs": {
                "description": "Several jobs by name.",
                "type": "object",
                "minProperties": 1,
            },
            "defaults": {"$ref": "#/$defs/Defaults"},
        },
        "if": {"anyOf": [{"required": ["jobs"]}, {"required": ["defaults"]}]},
        "then": {
            "required": ["jobs"],
            "propertyNames": {"enum": ["jobs", "defaults"]},
            **_if_default("entry_point", {}, _jobs("UnderDefaults"), _jobs(_IN_JOBS)),
        },
        "else": _by_kind("", otherwise=kinds.DEFAULT),
        "$defs": definitions,
    }


def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    models = dict(kinds.load_models())
    for model in (*models.values(), SageMakerDistribution):
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(schema.pop("$defs", {}))
        definitions[model.__name__] = schema
    definitions = {name: _trim(schema, title=name) for name, schema in definitions.items()}
    jobs: dict[str, dict[str, Any]] = {}
    for kind, model in models.items():
        name = model.__name__
        _add_file_forms(definitions[name]["properties"])
        definitions[f"{name}UnderDefaults"] = {
            key: value for key, value in definitions[name].items() if key != "required"
        }
        if _needs_name(model):
            required = [key for key in definitions[name]["required"] if key != "name"]
            definitions[f"{name}{_IN_JOBS}"] = {**definitions[name], "required": required}
        jobs[kind] = definitions[name]["properties"]
    _add_short_forms(definitions, jobs)
    definitions["Defaults"] = {
        "description": "Keys that every job under jobs inherits unless it sets them itself.",
        "type": "object",
        "properties": _merged_properties(jobs),
        "additionalProperties": False,
    }
    return definitions


def _merged_properties(jobs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The keys of all kinds of job; one that differs between them may be as in any of them."""
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for properties in jobs.values() for key in properties):
        forms = [properties[key] for properties in jobs.values() if key in properties]
        different = [form for number, form in enumerate(forms) if form not in forms[:number]]
        if len(different) == 1 or key == "kind":
            merged[key] = different[0]
        else:
            merged[key] = {"description": f"As in the jobs that have {key}.", "anyOf": different}
    return merged


def _trim(schema: Any, title: str = "") -> Any:
    """Removes the titles that pydantic derives from keys, and moves `null` into the type."""
    if isinstance(schema, list):
        return [_trim(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    trimmed = {
        key: {name: _trim(value) for name, value in item.items()} if key == "properties" else _trim(item)
        for key, item in schema.items()
        if key != "title" or not isinstance(item, str)
    }
    choices = trimmed.get("anyOf", [])
    if (
        len(choices) == 2
        and choices[1] == {"type": "null"}
        and "type" in choices[0]
        and "enum" not in choices[0]
    ):
        del trimmed["anyOf"]
        types = choices[0]["type"]
        nullable = [*types, "null"] if isinstance(types, list) else [types, "null"]
        trimmed = {**choices[0], **trimmed, "type": nullable}
    if trimmed.get("default", 0) is None:
        del trimmed["default"]
    return {"title": title, **trimmed} if title else trimmed


def _add_file_forms(properties: dict[str, Any]) -> None:
    """Adds forms that are valid in a file only, such as numbers where the models require text."""
    for key in ("environment", "tags"):
        if key in properties:
            properties[key].update(type=["object", "null"], additionalProperties=_NUMBER_OR_TEXT)
    if "arguments" in properties:
        properties["arguments"]["items"] = _NUMBER_OR_TEXT
    for key in ("name", "framework_version"):
        if key not in properties:
            continue
        types = properties[key]["type"]
        properties[key]["type"] = [*([types] if isinstance(types, str) else types), "number"]
    properties["kind"] = {
        "description": properties["kind"]["description"],
        "default": properties["kind"]["default"],
        "enum": list(kinds.KINDS),
    }
    if "framework" in properties:
        properties["framework"] = {
            "description": properties["framework"]["description"],
            "anyOf": [{"enum": list(KNOWN_FRAMEWORKS)}, {"type": ["string", "null"]}],
        }
    for key, part in (("resources", Resources), ("sagemaker", SageMakerSettings), ("ec2", EC2Settings)):
        if key not in properties:
            continue
        properties[key] = {
            "description": properties[key]["description"],
            "anyOf": [{"$ref": f"#/$defs/{part.__name__}"}, {"type": "null"}],
        }
    for key in ("inputs", "hyperparameters", "outputs"):
        if key in properties:
            properties[key]["type"] = ["object", "null"]


def _add_short_forms(definitions: dict[str, Any], jobs: dict[str, dict[str, Any]]) -> None:
    """Adds the short forms that the models' validators expand into mappings."""
    action = {"enum": definitions[IfGpuUnused.__name__]["properties"]["action"]["enum"]}
    sdk_form = {"$ref": f"#/$defs/{SageMakerDistribution.__name__}"}
    short_forms = (
        ("distribution", Distribution, ({"enum": list(LAUNCHERS)}, sdk_form)),
        ("checkpoint", Checkpoint, (_TEXT,)),
        ("if_gpu_unused", IfGpuUnused, (action,)),
    )
    for properties in jobs.values():
        for key, part, forms in short_forms:
            if key in properties:
                properties[key] = _or_short_form(properties[key], part.__name__, *forms)
    settings = definitions[EC2Settings.__name__]["properties"]
    settings["regions"] = _one_or_several_regions(settings["regions"])
    processing = jobs["processing"]
    names = {"anyOf": [{"pattern": CHANNEL_NAME}, {"pattern": f"^{PROCESSING_ROOT}(/|$)"}]}
    for key, part, short in (
        ("inputs", ProcessingInput, _TEXT),
        ("outputs", ProcessingOutput, {"type": ["string", "null"]}),
    ):
        definitions[part.__name__]["required"] = ["source"] if part is ProcessingInput else []
        value = {"anyOf": [short, {"$ref": f"#/$defs/{part.__name__}"}]}
        processing[key].update(additionalProperties=value, propertyNames=names)


def _one_or_several_regions(schema: dict[str, Any]) -> dict[str, Any]:
    """A region, or a list of regions, each as its name or as a mapping."""
    kept = {key: value for key, value in schema.items() if key in ("description", "examples", "default")}
    forms = [{"type": "string", "pattern": REGION}, {"$ref": f"#/$defs/{EC2Region.__name__}"}]
    listed = {"type": "array", "items": {"anyOf": forms}, "maxItems": MAX_REGIONS}
    return {**kept, "anyOf": [*forms, listed, {"type": "null"}]}


def _or_short_form(
    schema: dict[str, Any], name: str, short: dict[str, Any], *others: dict[str, Any]
) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key in ("description", "examples")}
    return {**kept, "anyOf": [short, {"$ref": f"#/$defs/{name}"}, *others, {"type": "null"}]}


def _jobs(suffix: str) -> dict[str, Any]:
    """Every job under `jobs`, by its own `kind`, else by that of `defaults`, else training."""
    by_default = {
        kind: {"properties": {"jobs": {"additionalProperties": _by_kind(suffix, otherwise=kind)}}}
        for kind in kinds.KINDS
    }
    schema = by_default[kinds.DEFAULT]
    for kind in reversed([*kinds.KINDS]):
        if kind != kinds.DEFAULT:
            schema = _if_default("kind", {"const": kind}, by_default[kind], schema)
    return schema


def _if_default(
    key: str, value: dict[str, Any], then: dict[str, Any], otherwise: dict[str, Any]
) -> dict[str, Any]:
    defaults = {"type": "object", "required": [key], "properties": {key: value}}
    return {
        "if": {"required": ["defaults"], "properties": {"defaults": defaults}},
        "then": then,
        "else": otherwise,
    }


def _by_kind(suffix: str, otherwise: str) -> dict[str, Any]:
    """The schema of a job by its `kind`; a job without it is of kind `otherwise`."""
    names = {
        kind: f"#/$defs/{model.__name__}{'' if suffix == _IN_JOBS and not _needs_name(model) else suffix}"
        for kind, model in kinds.load_models()
    }
    schema: dict[str, Any] = {"$ref": names.pop(otherwise)}
    for kind, name in reversed(names.items()):
        says = {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
        schema = {"if": says, "then": {"$ref": name}, "else": schema}
    return schema


def _needs_name(model: type[JobModel]) -> bool:
    return model.model_fields["name"].is_required()
