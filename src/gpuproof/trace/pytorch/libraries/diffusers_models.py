"""`from_pretrained` of diffusers: models are made from their configuration, and pipelines of such models."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes

_HUB = ("cache_dir", "force_download", "proxies", "local_files_only", "token", "revision", "subfolder")
_LOADING = (
    *(
        "variant",
        "use_safetensors",
        "low_cpu_mem_usage",
        "ignore_mismatched_sizes",
        "max_memory",
        "from_flax",
    ),
    *("offload_folder", "offload_state_dict", "offload_buffers", "keep_in_fp32_modules", "disable_mmap"),
    *("use_flashpack", "flashpack_kwargs", "user_agent"),
)
_WEIGHTS = ("*.safetensors", "*.bin", "*.ckpt", "*.pt", "*.pth", "*.msgpack", "*.h5", "*.onnx", "*.gguf")


def build_from_config(imports: ImportActions, notes: Notes) -> None:
    """Change `ModelMixin.from_pretrained` when diffusers is imported, and what pipelines download.

    Args:
        notes: takes the models whose weights were not loaded.
    """

    def change(module: Any) -> None:
        def from_pretrained(cls: Any, name: Any, **kwargs: Any) -> Any:
            return _built(notes, cls, name, kwargs)

        module.ModelMixin.from_pretrained = classmethod(from_pretrained)

    imports.after("diffusers.models.modeling_utils", change)
    imports.after("diffusers.pipelines.pipeline_utils", _without_weights)


def _built(notes: Notes, cls: Any, name: Any, kwargs: dict[str, Any]) -> Any:
    hub = {key: kwargs.pop(key) for key in _HUB if key in kwargs}
    for key in _LOADING:
        kwargs.pop(key, None)
    wanted = (kwargs.pop("dtype", None), kwargs.pop("torch_dtype", None))
    device_map, with_info = kwargs.pop("device_map", None), kwargs.pop("output_loading_info", False)
    for key, what in (("quantization_config", "quantized weights"), ("parallel_config", "several GPUs")):
        if kwargs.pop(key, None) is not None:
            raise CannotTrace(
                key.partition("_")[0],
                f"{name} is loaded with {key} ({what}), which is not planned.",
                f"Leave {key} out.",
            )
    config = cls.load_config(name, **hub)
    if config.get("quantization_config") is not None:
        raise CannotTrace(
            "quantization",
            f"{name} has quantized weights, which are not planned.",
            "Pass the model before its quantization for an upper bound.",
        )
    model = cls.from_config(config, **kwargs)
    dtype = next((dtype for dtype in wanted if dtype is not None), None)
    if dtype is not None:
        model.to(dtype)
    model.register_to_config(_name_or_path=str(name))
    model.eval()
    notes.add(
        "weights", f"{cls.__name__} of {name} was made from its configuration: its weights were not loaded."
    )
    if device_map not in (None, "cpu"):
        notes.add("device-map", f"device_map={device_map!r} was taken to put the whole model on one GPU.")
        model.to("cuda")
    empty: dict[str, list[str]] = {
        "missing_keys": [],
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    return (model, empty) if with_info else model


def _without_weights(module: Any) -> None:
    """Let pipelines download configurations, tokenizers and schedulers alone."""
    original = module.snapshot_download

    def download(*args: Any, **kwargs: Any) -> Any:
        kwargs["ignore_patterns"] = [*(kwargs.get("ignore_patterns") or ()), *_WEIGHTS]
        return original(*args, **kwargs)

    module.snapshot_download = download
