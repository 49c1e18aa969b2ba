"""The trace of a script: operators, allocations and assumptions, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar, cast

VERSION = 1

GEMM, BMM, ATTENTION = "gemm", "bmm", "attention"
CONV, GROUPED_CONV, DEPTHWISE_CONV = "conv", "grouped-conv", "depthwise-conv"
NORM, SOFTMAX, ELEMENTWISE, REDUCTION, POOL = "norm", "softmax", "elementwise", "reduction", "pool"
INDEX, OPTIMIZER, COPY, COLLECTIVE, OTHER = "index", "optimizer", "copy", "collective", "other"
CLASSES = (
    *(GEMM, BMM, ATTENTION, CONV, GROUPED_CONV, DEPTHWISE_CONV, NORM, SOFTMAX, ELEMENTWISE, REDUCTION, POOL),
    *(INDEX, OPTIMIZER, COPY, COLLECTIVE, OTHER),
)
"""What kinds of operators there are. `copy` is between host and GPU; a copy within the GPU is `elementwise`."""

CONTIGUOUS, CHANNELS_LAST, STRIDED, MIXED = "contiguous", "channels-last", "strided", "mixed"
"""Order of a tensor's numbers in memory; `strided` is any other, and `mixed` says that the tensors of an operator differ."""

PHASES = ("forward", "backward", "optimizer", "other")
CATEGORIES = ("parameter", "gradient", "optimizer", "buffer", "input", "activation", "temporary", "workspace")
"""What memory is for; what is needed by the backward pass is `activation`. Blocks of `workspace` are those of cuBLAS, whose
size depends on the GPU; theirs is that of most."""
CUBLAS_WORKSPACE = (4096 * 2 + 16 * 8) << 10
"""Bytes: https://docs.pytorch.org/docs/stable/notes/cuda.html#cublas-workspaces."""


@dataclass(frozen=True)
class Operator:
    """An operator with its shapes; one that a step calls several times is listed once.

    Args:
        name: such as `aten.convolution`.
        kind: one of `CLASSES`.
        dtype: the type that it computes in, such as `float16`; TF32 is decided by the GPU and the script's settings.
        phase: one of `PHASES`.
        flops: floating-point operations of one call; a multiplication and an addition are two.
        bytes: read and written by one call, each tensor counted once.
        kernels: how many kernels eager execution launches for one call; 0 for views.
        shapes: of the tensors that it reads.
        calls: how often one step calls it.
        gemm: (batch, m, n, k) of a matrix product, or of the product that a convolution is; empty for others.
        layout: of the large tensors that it reads and writes: `CONTIGUOUS`, `CHANNELS_LAST`, `STRIDED` or `MIXED`.
    """

    name: str
    kind: str
    dtype: str
    phase: str
    flops: float
    bytes: float
    kernels: int
    shapes: tuple[tuple[int, ...], ...]
    calls: int
    gemm: tuple[int, ...] = ()
    layout: str = CONTIGUOUS


@dataclass(frozen=True)
class Memory:
    """Allocations and frees on one GPU, in their order, from the start of the script to the end of the last step.

    Loops before the end of the first step have a few of their passes.

    Args:
        blocks: (bytes, index in `CATEGORIES`) of each block.
        events: `i + 1` allocates block i, `-(i + 1)` frees it, 0 ends a step.
        communication: indices of the blocks that are allocated on a stream of communication, whose memory other streams cannot use.
    """

    blocks: list[tuple[int, int]] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    communication: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Input:
    """The input pipeline.

    Args:
        samples: samples per batch on one GPU.
        host_s: seconds of processor time that one batch takes, in the script's process, without workers.
        workers: processes that the script's loader uses; 0 for the script's own.
        steps_per_epoch: batches of one pass over the data, if its length is known.
        bytes: of one batch, copied to the GPU.
        synthetic: the data was made up, so `host_s` says nothing.
        batches: of one step: more than one if the script accumulates gradients.
    """

    samples: int | None = None
    host_s: float | None = None
    workers: int = 0
    steps_per_epoch: int | None = None
    bytes: int = 0
    synthetic: bool = False
    batches: int = 1


@dataclass(frozen=True)
class Sharding:
    """How FSDP shards the model.

    Args:
        units: bytes of the parameters of each unit, as they are gathered; the outermost unit is the last one.
        keeps_gathered: units stay gathered from the forward to the backward pass (`SHARD_GRAD_OP`, `reshard_after_forward=False`).
        share_factor: bytes of a parameter, gradient or optimizer state in its share, for each byte in the trace: 2 if units compute in half precision
            and shares are kept in float32.
        reduce_factor: bytes of a gradient as it is sent, for each byte as it is made: 2 if units compute in half precision and
            gradients are reduced in float32 (`reduce_dtype`).
        copies_gathered: parameters are gathered into a buffer and copied from there (`fully_shard`), and not in place.
    """

    units: list[int] = field(default_factory=list)
    keeps_gathered: bool = False
    share_factor: float = 1.0
    reduce_factor: float = 1.0
    copies_gathered: bool = False


@dataclass(frozen=True)
class Note:
    """An assumption that was made, or a side effect that was prevented.

    Args:
        code: a name for programs, such as `value-dependent-branch`.
        message: for people.
        file: where, as the script names it.
        line: where.
        count: how often.
    """

    code: str
    message: str
    file: str | None = None
    line: int | None = None
    count: int = 1


@dataclass(frozen=True)
class Reads:
    """What a script has read, by absolute paths: its trace stays the same as long as these do.

    Args:
        files: its own modules among them; files of packages and of the system are left out.
        folders: that it listed, those of its files, and those of the installed packages.
    """

    files: list[str]
    folders: list[str]


@dataclass(frozen=True)
class Trace:
    """What a script does on one GPU.

    Args:
        framework: `torch` or `tensorflow`.
        framework_version: such as `2.13.0`.
        mode: `training` or `inference`.
        steps: steps that were traced; operators are those of the last one.
        epochs: how many passes the script would make, if it says.
        operators: of one step.
        memory: of all steps.
        host_operators: operators that one step calls, views included: each costs the host time.
        parameters: how many numbers the model has.
        trainable: how many of them are trained.
        model_bytes: of parameters and buffers.
        optimizer: the class, such as `AdamW`.
        precision: `float32`, `amp-float16`, `amp-bfloat16`, the type of the parameters, or `4-bit` and `8-bit` if most are quantized.
        compiled: the script uses `torch.compile` or XLA.
        checkpointing: the script recomputes activations.
        strategy: `none`, `ddp`, `fsdp`, `data-parallel`, `mirrored`.
        world_size: number of GPUs in the script's environment.
        sharding: with the strategy `fsdp`, and if the units are known.
        collective_bytes: sent by each GPU in a step.
        input: the input pipeline.
        assumptions: what was assumed, in order.
        side_effects: what was prevented.
        findings: what is wrong with how the script trains, with the codes of `gpuproof.trace.pytorch.steps.trained_parameters`.
        seconds: how long tracing took.
        peak_rss: memory of the tracing process, in bytes.
        reads: what the script has read; None if that is not known.
    """

    framework: str
    framework_version: str
    mode: str
    steps: int
    operators: list[Operator]
    memory: Memory
    host_operators: int
    parameters: int
    trainable: int
    model_bytes: int
    epochs: int | None = None
    optimizer: str | None = None
    precision: str = "float32"
    compiled: bool = False
    checkpointing: bool = False
    strategy: str = "none"
    world_size: int = 1
    sharding: Sharding | None = None
    collective_bytes: float = 0.0
    input: Input = Input()
    assumptions: list[Note] = field(default_factory=list)
    side_effects: list[Note] = field(default_factory=list)
    findings: list[Note] = field(default_factory=list)
    seconds: float = 0.0
    peak_rss: int = 0
    reads: Reads | None = None

    @property
    def flops(self) -> float:
        """Floating-point operations of one step."""
        return sum(operator.flops * operator.calls for operator in self.operators)


@dataclass(frozen=True)
class TraceFailure:
    """Why a script could not be traced.

    Args:
        code: a name for programs, such as `no-step`.
        message: what happened.
        remedy: what to pass or change instead.
        file: where in the user's code.
        line: where.
        traceback: of the user's code, if it raised an exception.
    """

    code: str
    message: str
    remedy: str
    file: str | None = None
    line: int | None = None
    traceback: str = ""


def write_trace(trace: Trace) -> str:
    """The trace as JSON."""
    content = asdict(trace)
    content["memory"].pop("communication")  # only the share of a sharded model has it, which is never written
    return json.dumps({"version": VERSION, "trace": content}, separators=(",", ":"))


def write_failure(failure: TraceFailure) -> str:
    """The failure as JSON."""
    return json.dumps({"version": VERSION, "failure": asdict(failure)}, separators=(",", ":"))


def read_trace(text: str) -> Trace | TraceFailure:
    """What was written.

    Raises:
        ValueError: it is of another version, or no trace.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"this is no trace of version {VERSION}")
    if "failure" in document:
        return _read(TraceFailure, document["failure"])
    content = dict(document["trace"])
    content["operators"] = [_read_operator(operator) for operator in content["operators"]]
    memory = content["memory"]
    content["memory"] = Memory([(size, kind) for size, kind in memory["blocks"]], memory["events"])
    content["input"] = _read(Input, content["input"])
    if content.get("sharding") is not None:
        content["sharding"] = _read(Sharding, content["sharding"])
    if content.get("reads") is not None:
        content["reads"] = _read(Reads, content["reads"])
    for name in ("assumptions", "side_effects", "findings"):
        content[name] = [_read(Note, note) for note in content.get(name, ())]
    return _read(Trace, content)


def _read_operator(content: dict[str, Any]) -> Operator:
    shapes = tuple(tuple(shape) for shape in content["shapes"])
    return _read(Operator, {**content, "shapes": shapes, "gemm": tuple(content["gemm"])})


_Record = TypeVar("_Record")


def _read(kind: type[_Record], content: dict[str, Any]) -> _Record:
    known = {field.name for field in fields(cast("Any", kind))}
    return kind(**{name: value for name, value in content.items() if name in known})
