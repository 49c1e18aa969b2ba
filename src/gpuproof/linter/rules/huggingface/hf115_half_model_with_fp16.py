"""The model's parameters are float16, and the Trainer trains with `fp16=True`: "Attempting to unscale FP16 gradients".

Mixed precision keeps the parameters in float32 and scales the loss; the scaler refuses gradients in float16. A model that is loaded with
`torch_dtype=torch.float16`, or turned by `.half()`, fails at the first step. Adapters of PEFT stay in float32 and are not reported, nor is a model
that is only evaluated.

Bad:

    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype=torch.float16)  # <-
    arguments = TrainingArguments("/opt/ml/model", fp16=True, dataloader_num_workers=2)
    trainer = Trainer(model=model, args=arguments, train_dataset=train_set)
    trainer.train()

Bad: turned afterwards

    from transformers import AutoModelForImageClassification, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForImageClassification.from_pretrained("facebook/dinov2-small")
    model = model.half()  # <-
    arguments = TrainingArguments("/opt/ml/model", fp16=True, dataloader_num_workers=2)
    Trainer(model=model, args=arguments, train_dataset=train_set).train()

Good:

    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    arguments = TrainingArguments("/opt/ml/model", fp16=True, dataloader_num_workers=2)
    Trainer(model=model, args=arguments, train_dataset=train_set).train()

Quiet: adapters

    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import train_set

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype=torch.float16)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))
    arguments = TrainingArguments("/opt/ml/model", fp16=True, dataloader_num_workers=2)
    Trainer(model=model, args=arguments, train_dataset=train_set).train()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.trainers.huggingface import TrainerCall, arguments_of, trainer_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF115", "half-model-with-fp16", Severity.ERROR, needs=("fp16",))

_ADAPTERS = re.compile(r"peft|lora|adapter|deepspeed|requires_grad", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for trainer in trainer_calls(module):
        arguments = arguments_of(trainer)
        if arguments is None:
            continue
        half = arguments.get("fp16")
        if not half.is_known or half.flag is not True:
            continue
        what = _half(module, trainer)
        if what is None or any(
            uses(local, _ADAPTERS, "name", "call", "keyword", "attribute") for local in local_modules(module)
        ):
            continue
        if not calls_named(module, "train") or calls_named(module, "float"):
            continue
        yield rule.hit(
            module.span(what),
            f'`{module.text(what)}` makes the model float16, and `fp16` is on: ValueError, "Attempting to unscale FP16 gradients".',
            remedy="Load the model in float32, or in bfloat16 with bf16=True.",
        )


def _half(module: Module, trainer: TrainerCall) -> ast.expr | None:
    """The expression that makes the parameters of a Trainer's model float16."""
    given = trainer.call.expression("model", 0)
    made = creations(module, given) if given is not None else []
    if len(made) != 1 or given is None:
        return None
    dtype = made[0].expression("torch_dtype") or made[0].expression("dtype")
    if dtype is not None and (
        made[0].module.qualified(dtype) in ("torch.float16", "torch.half") or _text(made[0]) == "float16"
    ):
        return dtype if made[0].module is module else None
    node = module.origin(given)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "half"
        and not node.args
    ):
        return node
    return None


def _text(load: Call) -> str | None:
    return load.argument("torch_dtype" if "torch_dtype" in load.keywords else "dtype").text
