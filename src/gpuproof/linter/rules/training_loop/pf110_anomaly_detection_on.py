"""Anomaly detection is left on: autograd checks every gradient for NaN and keeps a traceback for each operation.

It is meant for finding one NaN. Training is commonly two to ten times slower with it, and the GPU waits for each check.

Bad:

    import torch

    torch.autograd.set_detect_anomaly(True)  # <-

Fixed:

    import torch

    torch.autograd.set_detect_anomaly(False)

Bad: around the loop, and in Lightning

    import lightning as L
    import torch

    def train(model, loader, optimizer, device):
        with torch.autograd.detect_anomaly():  # <-
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()

    trainer = L.Trainer(detect_anomaly=True)  # <-

Good:

    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    torch.autograd.set_detect_anomaly(args.debug)

Quiet: only on request

    import os
    import torch

    if os.environ.get("DEBUG"):
        torch.autograd.set_detect_anomaly(True)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.distribution.strategies import is_conditional
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PF110", "anomaly-detection-on", Severity.WARNING, needs=("detect_anomaly",))

_REMEDY = "Remove it, or switch it on with an option of the script."


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch", "lightning", "pytorch_lightning") or is_test(module):
        return
    switches = calls_to(
        module, "torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly"
    )
    if not any(call.argument("mode", 0).flag is False for call in switches):
        for call in switches:
            value = call.argument("mode", 0)
            if value.is_known and value.flag is True and not is_conditional(module, call.node):
                yield _hit(call, call.expression("mode", 0))
    for call in calls_to(
        module, "torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly"
    ):
        block = module.tree.statement(call.node)
        inside = calls_within(calls_named(module, "backward"), block) if block is not None else []
        if any(module.loops_around(each.node) for each in inside) and not is_conditional(module, call.node):
            yield _hit(call, None)
    for call in calls_to(
        module, "lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"
    ):
        value = call.argument("detect_anomaly")
        if value.is_known and value.flag is True:
            yield _hit(call, call.expression("detect_anomaly"))


def _hit(call: Call, value: ast.expr | None) -> Hit:
    module = call.module
    return rule.hit(
        call.span,
        f"`{module.excerpt(call.node)}` checks every gradient for NaN: training is several times slower.",
        remedy=_REMEDY,
        fix=Fix("Switch it off", (replace_node(module, value, "False"),), safe=True)
        if value is not None
        else None,
    )
