"""The adapter is trained, but the base model is saved: loading it does not give the trained model.

`get_peft_model(model, config)` returns a model with adapters around the base model. `model.save_pretrained()` on the base model writes the weights under names of
PEFT's layers, without `adapter_config.json`: loading them gives the untrained model, or random weights. Save the model that `get_peft_model` returned, or merge it
with `merge_and_unload()`.

Bad:

    import os
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer
    from data import arguments, train_set

    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM"))
    Trainer(model=model, args=arguments, train_dataset=train_set).train()
    base.save_pretrained(os.environ["SM_MODEL_DIR"])  # <-

Good:

    import os
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer
    from data import arguments, train_set

    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM"))
    Trainer(model=model, args=arguments, train_dataset=train_set).train()
    model.save_pretrained(os.environ["SM_MODEL_DIR"])

Quiet: merged, or saved as well

    import os
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer
    from data import arguments, train_set

    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM"))
    Trainer(model=model, args=arguments, train_dataset=train_set).train()
    base = model.merge_and_unload()
    base.save_pretrained(os.environ["SM_MODEL_DIR"])
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import is_same_variable
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("HF120", "adapter-not-saved", Severity.WARNING, needs=("get_peft_model",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for wrapped in calls_to(module, "peft.get_peft_model"):
        base = wrapped.expression("model", 0)
        target = module.parent(wrapped.node)
        if not isinstance(base, ast.Name) or not isinstance(target, ast.Assign) or len(target.targets) != 1:
            continue
        name = target.targets[0]
        if not isinstance(name, ast.Name) or name.id == base.id:
            continue
        saves = [call for call in calls_named(module, "save_pretrained") if call.receiver is not None]
        of_base = [
            call
            for call in saves
            if call.receiver is not None and is_same_variable(module, base, call.receiver)
        ]
        others = [
            call
            for call in calls_named(
                module, "save_pretrained", "save_model", "merge_and_unload", "unload", "push_to_hub"
            )
            if call not in of_base and not _is_of_tokenizer(module.text(call.receiver or call.node))
        ]
        if not of_base or others:
            continue
        call = of_base[0]
        if call.node.lineno < wrapped.node.lineno:
            continue
        yield rule.hit(
            call.span,
            f"`{base.id}` is the base model; the trained adapter is in `{name.id}`, which nothing saves.",
            remedy=f"Call {name.id}.save_pretrained(...), or save {name.id}.merge_and_unload().",
        )


def _is_of_tokenizer(receiver: str) -> bool:
    return re.search(r"tok|processor|config|extractor", receiver, re.IGNORECASE) is not None
