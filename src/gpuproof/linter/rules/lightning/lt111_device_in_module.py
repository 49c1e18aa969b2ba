"""A LightningModule moves tensors to the GPU itself: `.cuda()` or `.to("cuda")`.

Lightning moves the module and its batches to the device of the process. `.cuda()` in a step is at best a copy that is not needed; it
fails where the module is on a CPU or another accelerator, and in `__init__`, before Lightning has chosen the GPU of the process, every
rank allocates on the first GPU. New tensors belong on `self.device`, constants in `register_buffer`. Moves to a GPU with a fixed
number, which fail with several GPUs, are reported by DS127.

Bad:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            x, y = batch
            noise = torch.randn(x.shape).cuda()  # <-
            return torch.nn.functional.mse_loss(self(x + noise), y.to("cuda"))  # <-

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Good:

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            x, y = batch
            noise = torch.randn(x.shape, device=self.device)
            return torch.nn.functional.mse_loss(self(x + noise), y.to(x.device))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

Quiet: outside of the module

    import lightning as L
    import torch

    class Net(L.LightningModule):
        def training_step(self, batch, batch_idx):
            return self(batch).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    model = Net.load_from_checkpoint("last.ckpt").cuda().eval()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import owners
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT111", "device-in-module", Severity.WARNING, needs=("LightningModule",))

_RANKED = re.compile(r"rank|device_count|current_device")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    lines: set[int] = set()
    for owner in owners(module, "LightningModule"):
        for call in calls_within(calls_named(module, "cuda", "to"), owner.node):
            if call.node.lineno in lines or not _moves_to_any_gpu(call) or _is_guarded(module, call):
                continue
            if module.function_of(call.node) is None:
                continue
            lines.add(call.node.lineno)
            yield rule.hit(
                call.span,
                f"`{module.text(call.node)}` in `{owner.node.name}`: Lightning moves the module and its batches to the GPU of the "
                "process.",
                remedy="Remove it; create new tensors with device=self.device, and constants with register_buffer.",
            )


def _moves_to_any_gpu(call: Call) -> bool:
    if call.receiver is None or call.name is not None:
        return False
    if call.method == "cuda":
        return not call.node.args and set(call.keywords) <= {"non_blocking"}
    target = call.expression("device", 0)
    if target is None:
        return False
    made = call.module.origin(target)
    if (
        isinstance(made, ast.Call)
        and call.module.qualified(made.func) == "torch.device"
        and len(made.args) == 1
    ):
        target = made.args[0]
    value = evaluate(call.module, target)
    return value.is_known and value.text == "cuda"


def _is_guarded(module: Module, call: Call) -> bool:
    """Whether a condition around a call names a rank or a device."""
    return any(
        isinstance(ancestor, (ast.If, ast.IfExp)) and _RANKED.search(module.text(ancestor.test)) is not None
        for ancestor in module.tree.ancestors(call.node)
    )
