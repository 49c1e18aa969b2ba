"""The sizes of language models, and the calls that load one."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls, calls_to, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.trainers.releases import is_at_least
from gpuproof.linter.project import Project
from gpuproof.util.csv_table import read_rows

_LOADERS = re.compile(
    r"^(transformers|peft)\.(\w+\.)*(Auto(Peft)?Model\w*|\w+For\w+|\w+LMHeadModel)\.from_pretrained$"
)
_SIZE = re.compile(r"(?:^|[-_/.])(\d{1,3}(?:\.\d+)?)[bB](?:$|[-_.])")
_MIXTURE = re.compile(r"\d+x\d+(\.\d+)?b|[-_]a\d+(\.\d+)?b|[-_]\d+e([-_]|$)", re.IGNORECASE)
_QUANTIZED = re.compile(
    r"gptq|awq|gguf|ggml|bnb|int[48]|fp[48]|[48]-?bit|w[48]a|exl2|mlx|nf4|quant|oss-|kimi|-v3|-r1$",
    re.IGNORECASE,
)
"""Names of checkpoints that take less than two bytes per parameter, or whose size the name does not say."""
_DTYPES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
SPREAD = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
"""Values of `device_map` that spread a model over all GPUs of a host."""


class ModelSize(NamedTuple):
    """The size of a model.

    Attributes:
        parameters: how many it has at least.
        text: for messages: `70.6 billion parameters`.
    """

    parameters: float
    text: str


class Load(NamedTuple):
    """A call that loads a language model.

    Attributes:
        name: the model.
        bytes_each: the least bytes for each parameter.
        dtype: what takes them, for messages: `bfloat16`, `4 bits`.
        spread: whether its layers are spread over all GPUs of the host.
    """

    call: Call
    name: Value
    size: ModelSize
    bytes_each: float
    dtype: str
    spread: bool


def model_size(name: str) -> ModelSize | None:
    """The size of a model by its name on the Hugging Face Hub: from the table, or else as the name says it (`Llama-3-8B`)."""
    row = _sizes().get(name.lower())
    if row is not None:
        return ModelSize(row * 1e9, f"{row:g} billion parameters")
    if _QUANTIZED.search(name) or _MIXTURE.search(name) or "/" not in name:
        return None
    match = _SIZE.search(name.partition("/")[2])
    # Names are rounded: a "7B" has 6.6 to 7.7 billion parameters.
    return ModelSize(float(match[1]) * 0.93e9, f"about {match[1]} billion parameters") if match else None


def loads(module: Module, project: Project) -> list[Load]:
    """The calls in a module that load a language model of a known size."""
    found = [*_pipelines(module), *_engines(module)]
    for call in all_calls(module):
        if call.method != "from_pretrained" or not _LOADERS.match(call.name or ""):
            continue
        name = call.argument("pretrained_model_name_or_path", 0)
        size = model_size(name.text) if name.text else None
        stored = _stored(call, project)
        if size is None or stored is None:
            continue
        device_map = call.argument("device_map")
        found.append(Load(call, name, size, *stored, device_map.text in SPREAD))
    return found


def _pipelines(module: Module) -> list[Load]:
    """Pipelines of a model by its name, on a GPU."""
    found: list[Load] = []
    for call in calls_to(module, "transformers.pipeline"):
        name, device = call.argument("model", 1), call.argument("device")
        size = model_size(name.text) if name.text else None
        dtype = call.expression("torch_dtype") or call.expression("dtype")
        written = (module.qualified(dtype) or "").removeprefix("torch.")
        on_gpu = device.number == 0 or (device.text or "").startswith("cuda")
        spread = call.argument("device_map").text in SPREAD
        if size is None or call.is_open or "model_kwargs" in call.keywords or not (on_gpu or spread):
            continue
        bytes_each = _DTYPES.get(written, 2)
        found.append(
            Load(call, name, size, bytes_each, written if written in _DTYPES else "half precision", spread)
        )
    return found


def _engines(module: Module) -> list[Load]:
    """Models that vLLM serves in the process."""
    found: list[Load] = []
    for call in calls_to(module, "vllm.LLM"):
        name, parallel = call.argument("model", 0), call.argument("tensor_parallel_size")
        size = model_size(name.text) if name.text else None
        others = {"quantization", "cpu_offload_gb", "pipeline_parallel_size"}
        if size is None or call.is_open or others & set(call.keywords):
            continue
        is_one = parallel.is_absent or parallel.number == 1
        found.append(Load(call, name, size, 2, "half precision", not is_one))
    return found


def _stored(call: Call, project: Project) -> tuple[float, str] | None:
    """The least bytes for each parameter that a call loads, with what takes them; None if that is unknown."""
    if call.is_open or "gguf_file" in call.keywords:
        return None
    if call.argument("load_in_4bit").flag is True:
        return 0.5, "4 bits"
    if call.argument("load_in_8bit").flag is True:
        return 1, "8 bits"
    given = call.expression("quantization_config")
    if given is not None:
        made = origin_call(call.module, given)
        if made is None or made.method != "BitsAndBytesConfig" or made.is_open:
            return None
        if made.argument("load_in_4bit").flag is True:
            return 0.5, "4 bits"
        return (1, "8 bits") if made.argument("load_in_8bit").flag is True else None
    written = call.expression("torch_dtype") or call.expression("dtype")
    if written is None:
        # transformers 5 loads the dtype of the checkpoint, older versions float32.
        old = is_at_least(call.module, project, "transformers", "5.0") == "no"
        return (4, "float32") if old else (2, "half precision")
    name = (call.module.qualified(written) or "").removeprefix("torch.")
    if name not in _DTYPES:
        value = call.argument("torch_dtype" if "torch_dtype" in call.keywords else "dtype")
        name = (value.text or "").removeprefix("torch.")
    return (_DTYPES[name], name) if name in _DTYPES else (2, "half precision")


@cache
def _sizes() -> dict[str, float]:
    path = Path(__file__).parents[2] / "data" / "language_models.csv"
    return {row["model"].lower(): float(row["parameters"]) for row in read_rows(path)}
