"""Selects the parts of the output of `build_sdk_tables_walk.py` that `gpuproof check` needs, and packs them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Seen = dict[str, Any]
"""The output of `build_sdk_tables_walk.py`."""

MOST_RUNS = 10
LONG = 16
"""Texts of at least this many words are shortened."""

DEEPEST = 4
"""Names of modules nested deeper than this are left out, unless a signature of the module is kept."""

STAR = 20
"""A module that re-exports all names of another, at least this many, is stored as a reference to it."""

V2_SIGNATURES = (  # noqa: SIM905 - a long list reads better in lines
    "algorithm amazon async_inference base_deserializers base_predictor base_serializers chainer "
    "clarify.SageMakerClarifyProcessor debugger djl_inference estimator huggingface image_uris inputs "
    "instance_group jumpstart.estimator jumpstart.model model model_monitor.data_capture_config "
    "multidatamodel mxnet network parameter pipeline predictor processing pytorch rl s3 serializers "
    "serverless session.Session session.get_execution_role sklearn spark sparkml tensorflow "
    "training_compiler transformer tuner workflow.functions workflow.parameters workflow.pipeline "
    "workflow.pipeline_context workflow.step_collections workflow.steps xgboost"
).split()
"""Parts of sagemaker v2 whose signatures are kept; other parts have only names."""

V3_SIGNATURES = (  # noqa: SIM905 - a long list reads better in lines
    "core.deserializers core.helper.session_helper.Session core.helper.session_helper.get_execution_role "
    "core.image_uris core.inference_config core.inputs core.instance_group "
    "core.model_monitor.data_capture_config core.network core.parameter core.processing core.s3 "
    "core.serializers core.spark core.training.configs core.training_compiler core.transformer "
    "core.workflow.functions core.workflow.parameters core.workflow.pipeline_context "
    "mlops.workflow.function_step mlops.workflow.pipeline mlops.workflow.steps serve.batch_inference "
    "serve.configs serve.model_builder serve.spec train.configs train.cpt_trainer train.distributed "
    "train.dpo_trainer train.model_trainer train.rlaif_trainer train.rlvr_trainer train.sft_trainer train.tuner"
).split()
"""The same for sagemaker v3; its shapes and resources are kept if one of these modules exports them."""

V2_OBJECTS = (  # noqa: SIM905 - a long list reads better in lines
    "algorithm base_predictor chainer.estimator chainer.model djl_inference.model djl_inference.djl_predictor estimator "
    "huggingface.estimator huggingface.model jumpstart.estimator jumpstart.model model multidatamodel mxnet.estimator "
    "mxnet.model pipeline predictor_async processing pytorch.estimator pytorch.model rl.estimator session.Session "
    "sklearn.estimator sklearn.model spark.processing tensorflow.estimator tensorflow.model transformer tuner "
    "workflow.pipeline xgboost.estimator xgboost.model"
).split()
"""Parts of sagemaker v2 whose classes' attributes are kept: what a script fits, deploys and calls."""

V3_OBJECTS = (  # noqa: SIM905 - a long list reads better in lines
    "core.helper.session_helper.Session core.processing core.spark.processing core.transformer mlops.workflow.pipeline "
    "serve.local_resources serve.model_builder train.base_trainer train.cpt_trainer train.dpo_trainer train.model_trainer "
    "train.rlaif_trainer train.rlvr_trainer train.sft_trainer train.tuner"
).split()
"""The same for sagemaker v3, with its resources."""

V3_SERVICE = ("sagemaker.core.shapes.shapes", "sagemaker.core.resources")
NAMES_UNKNOWN = (  # noqa: SIM905 - a long list reads better in lines
    "jumpstart lineage remote_function modules utilities apiutils marshalling config config_schema air_constants "
    "common_utils fw_utils model_builder_utils"
).split()
"""Packages of which only the modules are kept, not the names in them."""


def sdk_table(seen: Seen, wanted: Iterable[str], exact: bool, source: str, as_of: str) -> Seen:
    """One version of the SDK as the table that `gpuproof.linter.sdk` reads.

    With `exact` a module has all its names; else those that it only borrows from another are left out, unless it is
    a package that offers them.
    """
    kept = set(_kept_calls(seen, tuple(wanted)))
    calls, runs = shorten({name: signature_text(seen["calls"][name]) for name in sorted(kept)})
    return {
        "package": "sagemaker",
        "version": seen["version"],
        "source": source,
        "as_of": as_of,
        "modules": _modules(seen, kept, exact),
        "unread": sorted(_outermost(seen["unread"])),
        "runs": runs,
        "calls": _by_module(calls, seen),
        "bases": {
            name: " ".join(near)
            for name, line in sorted(seen["bases"].items())
            if name in kept and (near := [base for base in line if base in kept])
        },
    }


def signature_text(call: Seen) -> str:
    """`ignored a! b=1 * c old>c -gone`: the effect of unknown keywords, then parameters, renamed and dropped keywords."""
    words: list[str] = [call["unknown"]]
    for name, required, keyword_only, default in call["parameters"]:
        if keyword_only and "*" not in words:
            words.append("*")
        words.append(name + ("!" if required else "") + (f"={default}" if default else ""))
    words += [f"{old}>{new}" for old, new in sorted(call["renamed"].items())]
    return " ".join([*words, *(f"-{name}" for name in call["dropped"])])


def shorten(texts: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Replaces sequences of words that several long texts share by `&0`, `&1` …; returns the texts and the sequences.

    Frameworks' estimators repeat their base's forty parameters: without this the table is twice as large.
    """
    words = {name: text.split(" ") for name, text in texts.items()}
    runs: list[str] = []
    while len(runs) < MOST_RUNS and (best := _best_run(list(words.values()))):
        words = {name: _replace_run(each, best, f"&{len(runs)}") for name, each in words.items()}
        runs.append(" ".join(best))
    return {name: " ".join(each) for name, each in words.items()}, runs


def _best_run(texts: list[list[str]]) -> list[str]:
    long = [text for text in texts if len(text) >= LONG]
    tried: set[tuple[str, ...]] = set()
    for place, entry in enumerate(long):
        for other in long[place + 1 :]:
            match = difflib.SequenceMatcher(None, entry, other, autojunk=False).find_longest_match()
            tried.add(tuple(entry[match.a : match.a + match.size]))
    return list(max(tried, key=lambda run: _saved(run, long), default=())) if tried else []


def _saved(run: tuple[str, ...], texts: list[list[str]]) -> int:
    if len(run) < LONG // 4:
        return 0
    return len(" ".join(run)) * (sum(_replace_run(text, list(run), "&") != text for text in texts) - 1)


def _replace_run(text: list[str], run: list[str], by: str) -> list[str]:
    starts = (at for at in range(len(text) - len(run) + 1) if text[at : at + len(run)] == run)
    at = next(starts, None)
    return text if at is None else [*text[:at], by, *text[at + len(run) :]]


def write_table(path: Path, table: Seen) -> None:
    """Writes one entry per line, for readable diffs."""
    lines: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict) and value:
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _kept_calls(seen: Seen, wanted: tuple[str, ...]) -> Iterator[str]:
    prefixes = tuple(f"sagemaker.{part}." for part in wanted)
    offered = {
        home.replace(":", ".")
        for module, names in seen["modules"].items()
        if f"{module}.".startswith(prefixes)
        for home in names.values()
        if home.startswith(V3_SERVICE)
    }
    for name in seen["calls"]:
        if name.startswith(prefixes) or any(name == each or name.startswith(each + ".") for each in offered):
            yield name


def _modules(seen: Seen, kept: set[str], exact: bool) -> dict[str, str | None]:
    order = {module: place for place, module in enumerate(sorted(seen["modules"]))}
    return {module: _names_text(module, seen, order, kept, exact) for module in order}


def _names_text(module: str, seen: Seen, order: dict[str, int], kept: set[str], exact: bool) -> str | None:
    """`Own Alias@12 Old~ module/ *7 -Not`: 12 is the module that defines it; all of module 7 but `Not`.

    Constants in capitals are left out: public ones cannot be distinguished.
    """
    names: dict[str, str] = seen["modules"][module]
    parts = module.split(".")
    deep = len(parts) > DEEPEST or any(part in NAMES_UNKNOWN for part in parts)
    if deep and not any(call.startswith(module + ".") for call in kept):
        return None
    repeated = {other: _missing(names, seen["modules"][other], other) for other in order if other != module}
    stars = {other: missing for other, missing in repeated.items() if missing is not None}
    words = [f"*{order[other]}" for other in stars]
    words += [f"-{name}" for missing in stars.values() if missing for name in missing]
    for name, home in names.items():
        place, _, qualified = home.rpartition(":")
        if name.isupper() or (place in stars and qualified == name):
            continue
        if home.endswith(":") and (exact or module == "sagemaker"):
            if place != f"{module}.{name}":
                words.append(f"{name}/")
            elif place not in order:
                words.append(name)
        elif "deprecated_class" in home:
            words.append(f"{name}~")
        elif home.replace(":", ".") in kept and qualified == name:
            words.append(f"{name}@{order[place]}")
        elif exact or not home or any(other.startswith(module + ".") for other in order):
            words.append(name)
    return " ".join(words)


def _missing(names: dict[str, str], others: dict[str, str], other: str) -> list[str] | None:
    """Names that a module does not re-export from another; None if it does not re-export most of them."""
    own = [name for name, home in others.items() if not home and not name.isupper()]
    missing = [name for name in own if names.get(name) != f"{other}:{name}"]
    return missing if len(own) >= STAR and len(missing) * 10 < len(own) else None


def _by_module(calls: dict[str, str], seen: Seen) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path, text in calls.items():
        module = path.rpartition(".")[0]
        while module not in seen["modules"]:
            module = module.rpartition(".")[0]
        found.setdefault(module, {})[path.removeprefix(module + ".")] = text
    return found


def _outermost(modules: list[str]) -> list[str]:
    return [each for each in modules if not any(each.startswith(other + ".") for other in modules)]
