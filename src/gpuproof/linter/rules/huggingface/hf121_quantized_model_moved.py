"""A quantized model is moved or cast: ValueError.

bitsandbytes places a model in 8 bits when it loads it; `.to()` and `.cuda()` on it raise "`.to` is not supported for `8-bit` bitsandbytes models". In four bits this
holds for bitsandbytes before 0.43.2. `.half()` and `.float()` are refused for both, and so is a cast with `.to(torch.float16)`.

Bad:

    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_8bit=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=config)
    model = model.to("cuda")  # <-

Bad: cast

    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=config)
    model.half()  # <-

Good:

    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_8bit=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=config, device_map="auto")

Quiet: four bits, and another model

    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=config)
    model.to("cuda")
    other = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased").to("cuda")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.releases import constraint_range
from gpuproof.linter.knowledge.trainers.tables import version
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF121", "quantized-model-moved", Severity.ERROR, needs=("load_in_8bit", "load_in_4bit"))

_MOVES_FOUR_BITS = "0.43.2"
"""The first bitsandbytes that moves models in four bits: `PreTrainedModel.to` in transformers/modeling_utils.py, 2026-11-28."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "to", "cuda", "half", "float"):
        if call.receiver is None or call.name is not None:
            continue
        made = creations(module, call.receiver)
        bits = _bits(made[0]) if len(made) == 1 else None
        if bits is None or not _fails(call, bits):
            continue
        yield rule.hit(
            call.span,
            f"`{module.text(call.node)}` on a model in {bits} bits: ValueError.",
            remedy=_remedy(call),
        )


def _remedy(call: Call) -> str:
    if call.method in ("half", "float") or _names_dtype(call):
        return (
            "Remove it; pass torch_dtype to from_pretrained, or bnb_4bit_compute_dtype to BitsAndBytesConfig."
        )
    return 'Remove it; pass device_map={"": 0} to from_pretrained to choose the GPU.'


def _names_dtype(call: Call) -> bool:
    return any(
        (call.module.qualified(argument) or "").startswith(("torch.float", "torch.bfloat", "torch.half"))
        for argument in call.node.args
    )


def _fails(call: Call, bits: int) -> bool:
    if call.method in ("half", "float") or bits == 8 or _names_dtype(call):
        return True
    pin = constraint_range(pinned_versions(call.module.unit).get("bitsandbytes", ""), "bitsandbytes")
    return pin is not None and pin.high is not None and pin.high <= version(_MOVES_FOUR_BITS)


def _bits(load: Call) -> int | None:
    """The bits of each parameter of a model that a call loads with bitsandbytes."""
    if load.method != "from_pretrained":
        return None
    config = load.expression("quantization_config")
    source = origin_call(load.module, config) if config is not None else load
    if source is None or (config is not None and source.method != "BitsAndBytesConfig"):
        return None
    for bits in (4, 8):
        value = source.argument(f"load_in_{bits}bit")
        if value.is_known and value.flag is True:
            return bits
    return None
