"""`from_pretrained` of transformers: the model is made from its configuration, weights are neither read nor downloaded."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.libraries.bitsandbytes import note_quantized_layers
from gpuproof.trace.pytorch.libraries.quantized_layers import quantize

_HUB = ("cache_dir", "force_download", "proxies", "local_files_only", "token", "revision", "subfolder")
_HUB_ALSO = ("use_auth_token", "trust_remote_code", "code_revision", "_commit_hash")
_LOADING = (
    *(
        "state_dict",
        "from_tf",
        "from_flax",
        "resume_download",
        "ignore_mismatched_sizes",
        "max_memory",
        "variant",
    ),
    *("offload_folder", "offload_state_dict", "offload_buffers", "low_cpu_mem_usage", "use_safetensors"),
    *("weights_only", "disable_mmap", "key_mapping", "tqdm_class", "mirror", "_fast_init", "_from_auto"),
    *(
        "_from_pipeline",
        "adapter_kwargs",
        "adapter_name",
        "generation_config",
        "use_kernels",
        "kernel_config",
    ),
    *("fusion_config", "tp_plan", "tp_size", "device_mesh", "distributed_config"),
)
"""Arguments about files and weights, which the model's class does not take."""
_SPLIT = ("tp_plan", "tp_size", "device_mesh", "distributed_config")


def build_from_config(imports: ImportActions, notes: Notes) -> None:
    """Change `PreTrainedModel.from_pretrained` when transformers is imported.

    Args:
        notes: takes the models whose weights were not loaded.
    """

    def change(module: Any) -> None:
        def from_pretrained(cls: Any, name: Any, *args: Any, config: Any = None, **kwargs: Any) -> Any:
            return _built(module, notes, cls, name, args, config, kwargs)

        module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)

    imports.after("transformers.modeling_utils", change)


def _built(
    module: Any, notes: Notes, cls: Any, name: Any, args: tuple[Any, ...], config: Any, kwargs: dict[str, Any]
) -> Any:
    hub = {key: kwargs.pop(key) for key in _HUB if key in kwargs}
    for key in _HUB_ALSO:
        kwargs.pop(key, None)
    loading = {key: kwargs.pop(key) for key in _LOADING if key in kwargs}
    wanted = (kwargs.pop("dtype", None), kwargs.pop("torch_dtype", None))
    device_map, with_info = kwargs.pop("device_map", None), kwargs.pop("output_loading_info", False)
    quantization = _quantization(kwargs)
    _refuse_splits(loading)
    attention = kwargs.get("attn_implementation")
    if isinstance(attention, str) and "flash" in attention:
        kwargs["attn_implementation"] = "sdpa"
        notes.add("kernels", f"{attention} was traced as PyTorch's scaled_dot_product_attention.")
    if kwargs.pop("gguf_file", None) is not None:
        raise CannotTrace(
            "quantization",
            f"The weights of {name} are a GGUF file, whose model cannot be made from a configuration.",
            "Pass a folder with the config.json of the model before its conversion.",
        )
    if not _is_config(config):
        source = name if config is None else config
        config, kwargs = cls.config_class.from_pretrained(source, return_unused_kwargs=True, **hub, **kwargs)
    stored = getattr(config, "quantization_config", None)
    bits = _bits(name, quantization or stored)
    dtype = _dtype(config, wanted)
    model = _made(module, cls, config, dtype, args, kwargs)
    model.eval()
    if bits is not None:
        _quantize(notes, model, bits, quantization or stored)
        device_map = device_map or {"": 0}  # as transformers sets it
    notes.add(
        "weights",
        f"{cls.__name__} of {name} was made from its configuration in {str(dtype).partition('.')[2]}: its weights were not loaded.",
    )
    if device_map not in (None, "cpu"):
        notes.add("device-map", f"device_map={device_map!r} was taken to put the whole model on one GPU.")
        model.to("cuda")
        model.hf_device_map = {"": 0}
    empty: dict[str, list[str]] = {
        "missing_keys": [],
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    return (model, empty) if with_info else model


def _made(
    module: Any, cls: Any, config: Any, dtype: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    # The argument had another name before version 4.56.
    keyword = "dtype" if _version() >= (4, 56) else "torch_dtype"
    if args:
        raise CannotTrace(
            "arguments",
            f"{cls.__name__}.from_pretrained has positional arguments beside the name.",
            "Pass them by their names.",
        )
    with _uninitialized(module):
        model = cls._from_config(config, **{keyword: dtype}, **kwargs)
    model.tie_weights()
    return model


def _uninitialized(module: Any) -> AbstractContextManager[Any]:
    """A context in which weights are not initialized, which takes long for large models."""
    for owner in (getattr(module, "init", None), module):
        function = getattr(owner, "no_init_weights", None)
        if function is not None:
            return function()
    return nullcontext()


def _is_config(value: Any) -> bool:
    return value is not None and hasattr(value, "to_diff_dict")


def _dtype(config: Any, wanted: tuple[Any, Any]) -> Any:
    """The type of the parameters: what is asked for, else that of the configuration, as transformers chooses it."""
    dtype = next((dtype for dtype in wanted if dtype is not None), None)
    if dtype is None:
        dtype = "auto" if _version() >= (5, 0) else torch.get_default_dtype()
    if dtype == "auto":
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        found = (
            getattr(source, name, None) for source in (config, text) for name in ("dtype", "torch_dtype")
        )
        dtype = next((dtype for dtype in found if dtype is not None), torch.float32)
    if isinstance(dtype, dict):
        dtype = dtype.get("", torch.float32)
    return getattr(torch, dtype.rpartition(".")[2]) if isinstance(dtype, str) else dtype


def _version() -> tuple[int, int]:
    major, minor = sys.modules["transformers"].__version__.split(".")[:2]
    return int(major), int(minor)


def _quantization(kwargs: dict[str, Any]) -> Any:
    """What the arguments say about quantization; None for nothing."""
    bits = {name: kwargs.pop(name) for name in ("load_in_8bit", "load_in_4bit") if name in kwargs}
    config = kwargs.pop("quantization_config", None)
    return config if config is not None else ({name: True for name, on in bits.items() if on} or None)


def _setting(quantization: Any, name: str, default: Any = None) -> Any:
    found = quantization.get(name) if isinstance(quantization, dict) else getattr(quantization, name, None)
    return default if found is None else found


def _bits(name: Any, quantization: Any) -> int | None:
    """Bits of the weights of linear layers that bitsandbytes quantizes; None without quantization.

    Raises:
        CannotTrace: another library quantizes them.
    """
    if quantization is None:
        return None
    bits = next((bits for bits in (4, 8) if _setting(quantization, f"load_in_{bits}bit")), None)
    if bits is None:
        raise CannotTrace(
            "quantization",
            f"{name} has quantized weights ({_method(quantization)}), which are planned for bitsandbytes only.",
            "Load it without quantization (quantization_config) for an upper bound.",
        )
    return bits


def _quantize(notes: Notes, model: Any, bits: int, quantization: Any) -> None:
    """Quantize what transformers quantizes: linear layers, except for the output's and those that the configuration names."""
    output = model.get_output_embeddings()
    skip = [name for name, module in model.named_modules() if module is output and output is not None]
    skip += _setting(quantization, "llm_int8_skip_modules", [])
    kind = _setting(quantization, "bnb_4bit_compute_dtype", torch.float32) if bits == 4 else torch.float16
    kind = getattr(torch, kind.rpartition(".")[2]) if isinstance(kind, str) else kind
    quantize(model, bits, skip, kind, bool(_setting(quantization, "bnb_4bit_use_double_quant", False)))
    note_quantized_layers(notes, bits)
    model.is_quantized = model.is_loaded_in_4bit = model.is_loaded_in_8bit = False
    setattr(model, f"is_loaded_in_{bits}bit", True)


def _method(quantization: Any) -> str:
    if isinstance(quantization, dict):
        return str(quantization.get("quant_method") or ", ".join(quantization))
    return str(getattr(quantization.quant_method, "value", quantization.quant_method))


def _refuse_splits(loading: dict[str, Any]) -> None:
    for name in _SPLIT:
        if loading.get(name) is not None:
            raise CannotTrace(
                "parallel",
                f"{name} splits the model across GPUs, which is not planned.",
                "Leave it out, and plan with FSDP or for one GPU.",
            )
