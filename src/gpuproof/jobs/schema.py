"""JSON schema of `gpuproof.yaml`, generated from the models, with which editors complete and check the file."""

from __future__ import annotations

from typing import Any

from gpuproof.jobs.distribution.launchers import LAUNCHERS
from gpuproof.jobs.distribution.spec import Distribution, SageMakerDistribution
from gpuproof.jobs.spec import KNOWN_FRAMEWORKS, ProcessingJob, TrainingJob
from gpuproof.jobs.spec_ec2 import EC2Settings
from gpuproof.jobs.spec_parts import Checkpoint, IfGpuUnused, ProcessingInput, ProcessingOutput, Resources
from gpuproof.jobs.spec_sagemaker import SageMakerSettings
from gpuproof.jobs.validators import CHANNEL_NAME, PROCESSING_ROOT

SCHEMA_ID = "urn:gpuproof:schema:gpuproof.yaml:1"

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
            **_if_default("entry_point", {}, _jobs("UnderDefaults"), _jobs("")),
        },
        "else": _either("TrainingJob", "ProcessingJob", otherwise="training"),
        "$defs": definitions,
    }


def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    for model in (TrainingJob, ProcessingJob, SageMakerDistribution):
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(schema.pop("$defs", {}))
        definitions[model.__name__] = schema
    definitions = {name: _trim(schema, title=name) for name, schema in definitions.items()}
    for name in ("TrainingJob", "ProcessingJob"):
        _add_file_forms(definitions[name]["properties"])
        definitions[f"{name}UnderDefaults"] = {
            key: value for key, value in definitions[name].items() if key != "required"
        }
    training, processing = (definitions[name]["properties"] for name in ("TrainingJob", "ProcessingJob"))
    _add_short_forms(definitions, training, processing)
    definitions["Defaults"] = {
        "description": "Keys that every job under jobs inherits unless it sets them itself.",
        "type": "object",
        "properties": {
            **processing,
            **training,
            "inputs": {
                "description": "As in a training or a processing job.",
                "anyOf": [training["inputs"], processing["inputs"]],
            },
        },
        "additionalProperties": False,
    }
    return definitions


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
        properties[key].update(type=["object", "null"], additionalProperties=_NUMBER_OR_TEXT)
    properties["arguments"]["items"] = _NUMBER_OR_TEXT
    for key in ("name", "framework_version"):
        types = properties[key]["type"]
        properties[key]["type"] = [*([types] if isinstance(types, str) else types), "number"]
    properties["kind"] = {
        "description": properties["kind"]["description"],
        "default": properties["kind"]["default"],
        "enum": ["training", "processing"],
    }
    properties["framework"] = {
        "description": properties["framework"]["description"],
        "anyOf": [{"enum": list(KNOWN_FRAMEWORKS)}, {"type": ["string", "null"]}],
    }
    for key, part in (("resources", Resources), ("sagemaker", SageMakerSettings), ("ec2", EC2Settings)):
        properties[key] = {
            "description": properties[key]["description"],
            "anyOf": [{"$ref": f"#/$defs/{part.__name__}"}, {"type": "null"}],
        }
    for key in ("inputs", "hyperparameters", "outputs"):
        if key in properties:
            properties[key]["type"] = ["object", "null"]


def _add_short_forms(
    definitions: dict[str, Any], training: dict[str, Any], processing: dict[str, Any]
) -> None:
    """Adds the short forms that the models' validators expand into mappings."""
    sdk_form = {"$ref": f"#/$defs/{SageMakerDistribution.__name__}"}
    training["distribution"] = _or_short_form(
        training["distribution"], Distribution.__name__, {"enum": list(LAUNCHERS)}, sdk_form
    )
    training["checkpoint"] = _or_short_form(training["checkpoint"], Checkpoint.__name__, _TEXT)
    for properties in (training, processing):
        action = {"enum": definitions[IfGpuUnused.__name__]["properties"]["action"]["enum"]}
        properties["if_gpu_unused"] = _or_short_form(
            properties["if_gpu_unused"], IfGpuUnused.__name__, action
        )
    names = {"anyOf": [{"pattern": CHANNEL_NAME}, {"pattern": f"^{PROCESSING_ROOT}(/|$)"}]}
    for key, part, short in (
        ("inputs", ProcessingInput, _TEXT),
        ("outputs", ProcessingOutput, {"type": ["string", "null"]}),
    ):
        definitions[part.__name__]["required"] = ["source"] if part is ProcessingInput else []
        value = {"anyOf": [short, {"$ref": f"#/$defs/{part.__name__}"}]}
        processing[key].update(additionalProperties=value, propertyNames=names)


def _or_short_form(
    schema: dict[str, Any], name: str, short: dict[str, Any], *others: dict[str, Any]
) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key in ("description", "examples")}
    return {**kept, "anyOf": [short, {"$ref": f"#/$defs/{name}"}, *others, {"type": "null"}]}


def _jobs(suffix: str) -> dict[str, Any]:
    """Every job under `jobs`, by its own `kind`, else by that of `defaults`, else training."""
    names = (f"TrainingJob{suffix}", f"ProcessingJob{suffix}")
    kinds = {
        kind: {"properties": {"jobs": {"additionalProperties": _either(*names, otherwise=kind)}}}
        for kind in ("training", "processing")
    }
    return _if_default("kind", {"const": "processing"}, kinds["processing"], kinds["training"])


def _if_default(
    key: str, value: dict[str, Any], then: dict[str, Any], otherwise: dict[str, Any]
) -> dict[str, Any]:
    defaults = {"type": "object", "required": [key], "properties": {key: value}}
    return {
        "if": {"required": ["defaults"], "properties": {"defaults": defaults}},
        "then": then,
        "else": otherwise,
    }


def _either(training: str, processing: str, otherwise: str) -> dict[str, Any]:
    says, other = (training, processing) if otherwise == "processing" else (processing, training)
    kind = "training" if otherwise == "processing" else "processing"
    return {
        "if": {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]},
        "then": {"$ref": f"#/$defs/{says}"},
        "else": {"$ref": f"#/$defs/{other}"},
    }
