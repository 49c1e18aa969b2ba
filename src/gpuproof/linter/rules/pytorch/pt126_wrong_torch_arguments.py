"""A call of PyTorch or transformers with arguments that it does not have: a TypeError, when the instance is already running.

`Adam(params, learning_rate=...)`, `DataLoader(dataset, batchsize=...)`, a required argument that is missing, or a parameter that the job's
version of PyTorch does not have (yet, or any more). The signatures are data, read from the packages from PyTorch 1.10 and transformers
4.20 on; a call is reported if it fails with every version that may run it. pyright finds some of these, for the version in its own
environment.

Bad:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate=1e-3)  # <-

Bad: a parameter that the job's version does not have

    # file: requirements.txt
    torch==1.13.1
    # file: train.py
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader([], batch_size=4, in_order=False)  # <-

Bad: transformers

    from transformers import get_linear_schedule_with_warmup

    def schedule(optimizer):
        return get_linear_schedule_with_warmup(optimizer, num_warmup_steps=100)  # <-

Good:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

Quiet: arguments that are not seen, and a version that has them

    # file: requirements.txt
    torch==1.13.1
    # file: train.py
    import torch

    def build(params, options, *rest):
        torch.optim.Adam(params, *rest)
        torch.optim.lr_scheduler.StepLR(torch.optim.SGD(params, **options), 10, verbose=True)
        return torch.optim.Adam(params, fused=True)
"""

from functools import partial

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.call_signatures import calls_that_may_be, find_mismatch, known_calls
from gpuproof.linter.knowledge.frameworks.framework_version import Ternary, framework_is_at_least
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk.names import is_guarded

rule = Rule("PT126", "wrong-torch-arguments", Severity.ERROR, needs=("torch", "transformers"))

_ROOTS = ("torch.", "transformers.")


@rule.module
def check(module: Module, project: Project) -> Hits:
    # SageMaker's library for model parallelism comes with a PyTorch of its own.
    if not module.imports("torch", "transformers") or is_test(module) or module.imports("torch.sagemaker"):
        return
    names = known_calls("torch") | known_calls("transformers")
    for call in calls_that_may_be(module, names):
        name = call.name
        if name is None or not name.startswith(_ROOTS) or name not in names:
            continue
        of_torch = name.startswith("torch.")
        at_least = partial(framework_is_at_least, module, project, "pytorch") if of_torch else _unknown
        found = find_mismatch(call, name, at_least)
        if found is None or is_guarded(module, call.node):
            continue
        yield rule.hit(module.span(found.node), f"{found.problem}: a TypeError.", remedy=found.remedy)


def _unknown(_: str) -> Ternary:
    return "unknown"
