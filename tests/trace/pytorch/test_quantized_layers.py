"""Linear layers with weights of 4 or 8 bits, in a script and in models of transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuproof.trace.document import CATEGORIES, Trace
from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

ADAPTER = """
import bitsandbytes as bnb
import torch

class Adapted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = bnb.nn.{layer}
        self.down, self.up = torch.nn.Linear(1024, 8, bias=False), torch.nn.Linear(8, 1024, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))

model = torch.nn.Sequential(Adapted(), Adapted()).cuda()
model[0].base.requires_grad_(False)
optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
for _ in range(3):
    optimizer.zero_grad()
    model(torch.zeros(16, 1024, device="cuda")).sum().backward()
    optimizer.step()
"""
NUMBERS = 1024 * 1024


def alive(trace: Trace, *categories: str) -> int:
    """Bytes of categories at the end of the last step."""
    found: dict[int, int] = {}
    for event in trace.memory.events:
        if event > 0:
            size, kind = trace.memory.blocks[event - 1]
            found[event] = size if CATEGORIES[kind] in categories else 0
        else:
            found.pop(-event, None)
    return sum(found.values())


@pytest.mark.parametrize(
    ("layer", "bytes_of_layer", "precision"),
    [
        # Half a byte for a weight, a byte for 64 of them, and four bytes for 64 * 256.
        (
            "Linear4bit(1024, 1024, bias=False, compute_dtype=torch.bfloat16)",
            NUMBERS // 2 + NUMBERS // 64 + 4 * (NUMBERS // 64 // 256),
            "4-bit",
        ),
        # Four bytes for 64 weights.
        (
            "LinearNF4(1024, 1024, bias=False, compress_statistics=False)",
            NUMBERS // 2 + 4 * (NUMBERS // 64),
            "4-bit",
        ),
        ("Linear8bitLt(1024, 1024, bias=False, has_fp16_weights=False)", NUMBERS + 4 * 1024, "8-bit"),
    ],
    ids=["double quantization", "simple", "8 bits"],
)
def test_a_quantized_layer_takes_its_bits_and_trains_an_adapter(
    tmp_path: Path, layer: str, bytes_of_layer: int, precision: str
) -> None:
    trace = trace_of(tmp_path, ADAPTER.format(layer=layer))
    adapters = 2 * 2 * 8 * 1024
    assert (trace.parameters, trace.trainable) == (2 * NUMBERS + adapters, adapters)
    assert trace.precision == precision
    assert alive(trace, "parameter", "buffer") == 2 * bytes_of_layer + 4 * adapters
    # The product with the whole weights: both forwards, that of the second layer backwards.
    products = [operator for operator in trace.operators if operator.gemm == (1, 16, 1024, 1024)]
    assert {product.phase: product.calls for product in products} == {"forward": 2, "backward": 1}
    assert {product.dtype for product in products} == {"bfloat16" if "bfloat16" in layer else "float32"}
    # No whole weights are kept for the backward pass.
    largest = max(size for size, kind in trace.memory.blocks if CATEGORIES[kind] == "activation")
    assert largest < NUMBERS


QLORA = """
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

quantization = BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16
)
model = AutoModelForCausalLM.from_pretrained("llama", quantization_config=quantization)
assert next(model.parameters()).is_cuda and model.is_loaded_in_4bit
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    tokens = torch.zeros(2, 32, dtype=torch.int64, device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
LINEAR = 2 * (4 * 64 * 64 + 3 * 64 * 128)
REST = 2 * 100 * 64 + 5 * 64
"""Numbers in the layers that are quantized; in embeddings, the output layer and norms."""


def llama(folder: Path, **more: object) -> None:
    (folder / "llama").mkdir()
    (folder / "llama" / "config.json").write_text(json.dumps({**LLAMA, **more}))


def test_qlora_of_a_model_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    llama(tmp_path)
    trace = trace_of(tmp_path, QLORA)
    adapters = 2 * 2 * 2 * 4 * 64
    assert (trace.parameters, trace.trainable) == (LINEAR + REST + adapters, adapters)
    # Embeddings, norms and the output layer are in float32 after prepare_model_for_kbit_training.
    factors = sum(-(-count // 64) + 4 for count in [64 * 64] * 8 + [64 * 128] * 6)
    numbers = alive(trace, "parameter", "buffer")
    assert (
        LINEAR // 2 + 4 * (REST + adapters) <= numbers <= LINEAR // 2 + 4 * (REST + adapters) + factors + 4096
    )
    assert "device-mismatch" not in {note.code for note in trace.assumptions}


def test_a_stored_configuration_quantizes_too(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    stored = {
        "quant_method": "bitsandbytes",
        "load_in_8bit": True,
        "llm_int8_skip_modules": ["lm_head", "gate_proj"],
    }
    llama(tmp_path, quantization_config=stored)
    script = (
        "from transformers import AutoModelForCausalLM\n"
        "import torch\n"
        'model = AutoModelForCausalLM.from_pretrained("llama")\n'
        "kinds = {name.rpartition('.')[2]: type(module).__name__ for name, module in model.named_modules()}\n"
        "assert (kinds['q_proj'], kinds['gate_proj'], kinds['lm_head']) == ('QuantizedLinear', 'Linear', 'Linear')\n"
        "with torch.no_grad():\n"
        "    for _ in range(4):\n"
        "        model(input_ids=torch.zeros(1, 8, dtype=torch.int64, device='cuda'))\n"
    )
    assert trace_of(tmp_path, script).mode == "inference"


def test_quantized_embeddings_are_an_error(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import bitsandbytes as bnb\nbnb.nn.Embedding4bit(4, 4)\n")
    assert (failure.code, failure.line) == ("quantization", 2)
