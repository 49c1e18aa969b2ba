"""Reads the measured tables: figures that others published, in a folder that is not part of this repository.

Sources: itu-rad/GPUMemNet (memory), huggingface/pytorch-image-models (times of timm models), mosaicml/llm-foundry (MPT),
sitar-lab/NeuSight (operators).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True)
class Throughput:
    """A measured step: of one GPU.

    Args:
        model: of timm.
        batch: samples.
        size: pixels of a side.
        seconds: of one step.
    """

    model: str
    batch: int
    size: int
    seconds: float


@dataclass(frozen=True)
class OperatorTime:
    """A measured operator in FP32.

    Args:
        name: such as `linear`.
        device: as the table names the GPU.
        shape: (b, m, n, k) of a product, else (b, h).
        seconds: of one call.
    """

    name: str
    device: str
    shape: tuple[int, ...]
    seconds: float


def timm_memory(folder: Path) -> dict[str, dict[int, int]]:
    """Bytes by batch size for each model, on an A100-40GB.

    Failed runs are mixed in: of a model whose figures do not grow with the batch size, only those up to the first that does not
    are kept, and none if fewer than two are left.
    """
    found: dict[str, dict[int, int]] = {}
    for row in _rows(folder / "timm_training_memory_a100_40gb.csv"):
        value = int(float(row["measured_max_gpu_memory_MiB"])) * MIB
        found.setdefault(row["model"], {})[int(row["batch_size"])] = value
    return {name: good for name, all_ in found.items() if len(good := _growing(all_)) > 1}


def _growing(values: dict[int, int]) -> dict[int, int]:
    kept: dict[int, int] = {}
    for batch in sorted(values):
        if kept and values[batch] <= max(kept.values()):
            break
        kept[batch] = values[batch]
    return kept


def timm_training(folder: Path) -> dict[str, Throughput]:
    """AMP with channels last on an RTX 3090."""
    rows = _rows(folder / "benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv")
    return {row["model"].partition(".")[0]: _throughput(row, "train") for row in rows}


def timm_inference(folder: Path) -> dict[str, Throughput]:
    """AMP on an RTX PRO 6000 Blackwell Max-Q."""
    rows = _rows(folder / "benchmark-infer-amp-nchw-pt291-cu130-pro6000maxq.csv")
    return {row["model"].partition(".")[0]: _throughput(row, "infer") for row in reversed(rows)}


def _throughput(row: dict[str, str], kind: str) -> Throughput:
    batch = int(row[f"{kind}_batch_size"])
    seconds = batch / float(row[f"{kind}_samples_per_sec"])
    return Throughput(row["model"].partition(".")[0], batch, int(row[f"{kind}_img_size"]), seconds)


def neusight(folder: Path) -> list[OperatorTime]:
    """Operators in FP32 on eight GPUs."""
    found: list[OperatorTime] = []
    for table in ("bmm", "linear", "elem", "ln", "softmax"):
        with gzip.open(folder / f"neusight_ops_{table}.csv.gz", "rt", newline="") as file:
            for row in csv.DictReader(file):
                names = "BMNK" if table in ("bmm", "linear") else "BH"
                shape = tuple(int(float(row[name])) for name in names)
                found.append(OperatorTime(row["OPName"], row["Device"], shape, float(row["Latency"]) / 1e3))
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class ConvNet:
    """NVIDIA's figures of a model on one GPU.

    Args:
        model: of timm.
        mode: `training` or `inference`.
        gpu: of the catalogue.
        precision: `half` or `float32`, which is TF32 on an A100.
        seconds: of one sample.
        batch: samples; of training, NVIDIA's README files do not give it with the figures.
    """

    model: str
    mode: str
    gpu: str
    precision: str
    seconds: float
    batch: int


CONVNET_BATCH = 128
"""Of the traces, and of the inference rows that are compared with them."""
CONVNETS = {
    "resnet50v1.5": "resnet50",
    "resnext101-32x4d": "resnext101_32x4d",
    "se-resnext101-32x4d": "seresnext101_32x4d",
    "efficientnet-b0": "efficientnet_b0",
    "efficientnet-b4": "efficientnet_b4",
}


def nvidia_convnets(folder: Path, batches: Sequence[int] = (CONVNET_BATCH,)) -> list[ConvNet]:
    """ConvNets in PyTorch on one GPU; training on eight is bound by the input pipeline.

    Args:
        folder: of the tables.
        batches: of the rows of inference.
    """
    found: list[ConvNet] = []
    with gzip.open(folder / "nvidia_deeplearningexamples_tables.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["path"].startswith("PyTorch/Classification/ConvNets/"):
                columns = [cell.strip() for cell in row["columns"].split("|")]
                cells = dict(zip(columns, (cell.strip() for cell in row["row"].split("|")), strict=False))
                name = CONVNETS.get(cells.get("Model", row["path"].split("/")[-2]))
                gpu = _convnet_gpu(row["section"])
                if name is None or gpu is None:
                    continue
                if "Training performance: NVIDIA" in row["section"] and cells.get("GPUs") == "1":
                    found += _convnet_training(name, gpu, cells)
                if "Inference performance: NVIDIA" in row["section"]:
                    found += _convnet_inference(name, gpu, row["section"], cells, batches)
    return found


def _convnet_gpu(section: str) -> str | None:
    names = {"A100": "A100-80GB", "V100 16GB": "V100-16GB", "NVIDIA T4": "T4"}
    return next((name for text, name in names.items() if text in section), None)


def _convnet_training(name: str, gpu: str, cells: dict[str, str]) -> list[ConvNet]:
    return [
        ConvNet(name, "training", gpu, precision, 1 / float(value.split()[0]), CONVNET_BATCH)
        for column, value in cells.items()
        if (precision := _precision(column)) and value.endswith("img/s")
    ]


def _convnet_inference(
    name: str, gpu: str, section: str, cells: dict[str, str], batches: Sequence[int]
) -> list[ConvNet]:
    throughput = cells.get("Throughput Avg", "")
    if cells.get("Batch Size", "") not in {str(batch) for batch in batches} or not throughput.endswith(
        "img/s"
    ):
        return []
    precision = "half" if "Mixed Precision" in section else "float32"
    seconds = 1 / float(throughput.split()[0])
    return [ConvNet(name, "inference", gpu, precision, seconds, int(cells["Batch Size"]))]


def _precision(column: str) -> str | None:
    if "speedup" in column or "Scaling" in column or "Time" in column:
        return None
    return "half" if "mixed precision" in column else "float32" if "32" in column else None


@dataclass(frozen=True)
class LanguageModel:
    """A measured step of an MPT model under FSDP.

    Args:
        model: such as `7b`.
        gpu: of the catalogue.
        gpus: in all.
        tokens: of a sequence.
        samples: of one microbatch.
        microbatches: of one step.
        checkpointing: whether activations are recomputed.
        mixed: parameters in FP32 (`amp_bf16`) and not in BF16.
        seconds: of one step.
    """

    model: str
    gpu: str
    gpus: int
    tokens: int
    samples: int
    microbatches: int
    checkpointing: bool
    mixed: bool
    seconds: float


_LLM_GPUS = {"a100_40gb": "A100-40GB", "a100_80gb": "A100-80GB", "h100_80gb": "H100"}


def llm_foundry(folder: Path) -> list[LanguageModel]:
    """MPT models in BF16 with full sharding on up to 64 GPUs."""
    found: list[LanguageModel] = []
    for row in _rows(folder / "llm_foundry_a100_h100.csv"):
        gpus = int(row["# GPUs"])
        if "bf16" not in row["Precision"] or row["Sharding Strategy"] != "FULL_SHARD" or gpus > 64:
            continue
        seconds = int(row["GlobalBatchSize (T)"]) / float(row["Throughput (T/s)"])
        micro, steps = int(float(row["MicroBatchSize"])), int(row["GradAccum"])
        found.append(
            LanguageModel(
                row["Model"],
                _LLM_GPUS[row["GPU"]],
                gpus,
                int(row["SeqLen (T)"]),
                micro,
                steps,
                row["Activation Checkpointing"] == "True",
                row["Precision"] == "amp_bf16",
                seconds,
            )
        )
    return found
