"""Traces of MPT models, made from their shapes: the measured ones used Composer, FSDP and flash attention on up to 64 GPUs."""

from __future__ import annotations

from bench.plan.tables import LanguageModel

from gpuproof.trace.document import (
    ATTENTION,
    ELEMENTWISE,
    GEMM,
    NORM,
    OPTIMIZER,
    SOFTMAX,
    Memory,
    Operator,
    Trace,
)

SHAPES = {
    "125m": (768, 12, 12),
    "350m": (1024, 24, 16),
    "760m": (1536, 24, 12),
    "1b": (2048, 24, 16),
    "3b": (2560, 32, 20),
    "7b": (4096, 32, 32),
    "13b": (5120, 40, 40),
    "30b": (7168, 48, 56),
    "70b": (8192, 80, 64),
}
"""Width, layers and heads, from llm-foundry's configurations."""
_VOCABULARY = 50368
_HALF, _FULL = 2, 4
_PASSES_OF_ADAMW, _KERNELS_OF_ADAMW = 22.0, 9
"""Tensors of the parameters' size that AdamW reads and writes when it is not fused: weight decay (2), both moments (3, 2 and 4), square
root (2), correction (2), epsilon (2) and update (5)."""


def trace_of(row: LanguageModel) -> Trace:
    """One step: all microbatches, then the optimizer on this GPU's shard."""
    width, layers, heads = SHAPES[row.model]
    tokens = row.samples * row.tokens
    parameters = _VOCABULARY * width + layers * 12 * width * width
    calls = row.microbatches
    operators: list[Operator] = []

    def product(name: str, m: int, n: int, k: int, count: int) -> None:
        flops, size = 2.0 * m * n * k, float(_HALF * (m * k + k * n + m * n))
        recomputed = count * (2 if row.checkpointing and name != "logits" else 1)
        # Backwards, the gradients of the input and of the weights.
        for phase, shape, times in (
            ("forward", (1, m, n, k), recomputed),
            ("backward", (1, m, k, n), count),
            ("backward", (1, k, n, m), count),
        ):
            operators.append(
                Operator(name, GEMM, "bfloat16", phase, flops, size, 1, (), times * calls, shape)
            )

    def memory_bound(name: str, kind: str, dtype: str, size: float, count: int) -> None:
        recomputed = count * (2 if row.checkpointing and kind != SOFTMAX else 1)
        operators.append(Operator(name, kind, dtype, "forward", 0, size, 1, (), recomputed * calls))
        operators.append(Operator(name, kind, dtype, "backward", 0, 1.5 * size, 1, (), count * calls))

    for name, n, k in (
        ("qkv", 3 * width, width),
        ("out", width, width),
        ("up", 4 * width, width),
        ("down", width, 4 * width),
    ):
        product(name, tokens, n, k, layers)
    product("logits", tokens, _VOCABULARY, width, 1)
    # Flash attention computes half of the products, because the mask is causal.
    attention = 4.0 * row.samples * row.tokens * row.tokens * width / 2
    size = 4.0 * _HALF * tokens * width
    recomputed = 2 if row.checkpointing else 1
    shape = (row.samples * heads, row.tokens, row.tokens, width // heads)
    operators.append(
        Operator(
            "attention",
            ATTENTION,
            "bfloat16",
            "forward",
            attention,
            size,
            1,
            (),
            layers * recomputed * calls,
            shape,
        )
    )
    operators.append(
        Operator(
            "attention",
            ATTENTION,
            "bfloat16",
            "backward",
            2.5 * attention,
            2 * size,
            2,
            (),
            layers * calls,
            shape,
        )
    )
    memory_bound("norm", NORM, "bfloat16", 2.0 * _HALF * tokens * width, 2 * layers + 1)
    memory_bound("residual", ELEMENTWISE, "bfloat16", 3.0 * _HALF * tokens * width, 2 * layers)
    memory_bound("gelu", ELEMENTWISE, "bfloat16", 2.0 * _HALF * tokens * 4 * width, layers)
    memory_bound("loss", SOFTMAX, "float32", 3.0 * _FULL * tokens * _VOCABULARY, 1)
    shard = parameters / row.gpus
    operators.append(
        Operator(
            "adamw",
            OPTIMIZER,
            "float32",
            "optimizer",
            10 * shard,
            _PASSES_OF_ADAMW * _FULL * shard,
            _KERNELS_OF_ADAMW,
            (),
            1,
        )
    )
    return Trace(
        framework="torch",
        framework_version="2.1",
        mode="training",
        steps=1,
        operators=operators,
        memory=Memory(),
        host_operators=0,
        parameters=parameters,
        trainable=parameters,
        # Gathered twice in 16 bits; gradients are reduced in 32 if the parameters have 32.
        model_bytes=int(_HALF * parameters * calls * (4 / 3 if row.mixed else 1)),
        precision="amp-bfloat16",
        strategy="fsdp",
    )
