"""The model is saved as `prepare()` returned it, inside its wrapper: with several processes the file does not load.

With more than one process, `prepare()` returns the model in DistributedDataParallel. The keys of its `state_dict()` start with
`module.`, so that `load_state_dict` of the plain model fails, and it has no `save_pretrained()`: AttributeError, after the last
epoch. With one process both work. `accelerator.unwrap_model(model)` is the model itself.
Source: https://huggingface.co/docs/accelerate/package_reference/accelerator, `unwrap_model`.

Bad:

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    if accelerator.is_main_process:
        torch.save(model.state_dict(), "/opt/ml/model/model.pt")  # <-

Bad: of transformers

    from accelerate import Accelerator
    from transformers import AutoModelForCausalLM

    def main():
        accelerator = Accelerator()
        model = AutoModelForCausalLM.from_pretrained("gpt2")
        model = accelerator.prepare(model)
        if accelerator.is_main_process:
            model.save_pretrained("/opt/ml/model")  # <-

    main()

Good:

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "/opt/ml/model/model.pt")

Quiet: an optimizer, whose wrapper saves what it wraps

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, opt = accelerator.prepare(model, opt)
    torch.save({"model": accelerator.get_state_dict(model), "opt": opt.state_dict()}, "checkpoint.pt")

Quiet: unwrapped before

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(8, 1))
    model = accelerator.unwrap_model(model)
    torch.save(model.state_dict(), "/opt/ml/model/model.pt")

Quiet: a checkpoint of Accelerate

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(8, 1))
    accelerator.save_state("/opt/ml/checkpoints")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.accelerate import is_accelerator, is_from_prepare, shards_models
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

_OTHERS = re.compile(r"(^|[._])opt\d*$|optim|sched", re.IGNORECASE)

rule = Rule("DS138", "accelerate-saves-wrapped", Severity.WARNING, needs=("ccelerat",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or not calls_named(module, "prepare", "prepare_model") or shards_models(module):
        return
    for call in calls_named(module, "save", "save_file"):
        is_save = call.name in ("torch.save", "safetensors.torch.save_file") or is_accelerator(
            module, call.receiver
        )
        for argument in call.node.args[:1] if is_save else ():
            saved = module.origin(argument)
            for node in ast.walk(saved) if saved is not None else ():
                match node:
                    case ast.Call(func=ast.Attribute(value=model, attr="state_dict")):
                        if _is_no_model(module, model) or not is_from_prepare(module, model):
                            continue
                        yield rule.hit(
                            module.span(node),
                            f"`{module.text(model)}` is saved in its wrapper: with several processes its keys start with `module.`.",
                            remedy=f"Save accelerator.unwrap_model({module.text(model)}).state_dict().",
                        )
                    case _:
                        pass
    for call in calls_named(module, "save_pretrained"):
        model = call.receiver
        if model is None or not is_from_prepare(module, model):
            continue
        yield rule.hit(
            call.span,
            f"`{module.text(model)}` is in its wrapper, which has no save_pretrained() with several processes: AttributeError.",
            remedy=f"Use accelerator.unwrap_model({module.text(model)}).save_pretrained(...).",
        )


def _is_no_model(module: Module, node: ast.expr) -> bool:
    """Whether what is saved is an optimizer or a scheduler, whose wrapper saves what it wraps."""
    return _OTHERS.search(module.text(node)) is not None or any(
        (made.name or "").startswith("torch.optim.") for made in creations(module, node)
    )
