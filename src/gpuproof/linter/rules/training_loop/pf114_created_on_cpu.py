"""A tensor is created on the CPU and then copied to the GPU: `torch.rand(n).to(device)` instead of `torch.rand(n, device=device)`.

The copy takes time and a synchronization in each step. With a fixed seed, the CPU and the GPU create different random numbers,
so the rule is strict.

Bad:

    import torch

    for step in range(100):
        noise = torch.randn(64, 100).to(device)  # <-

Good:

    import torch

    for step in range(100):
        noise = torch.randn(64, 100, device=device)

Quiet: outside of a loop

    import torch

    weights = torch.ones(10).to(device)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF114", "created-on-cpu", Severity.NOTE, when="strict", needs=("torch",))

_CREATE = frozenset(
    f"torch.{name}"
    for name in ("rand", "randn", "randint", "zeros", "ones", "full", "empty", "arange", "linspace")
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "to", "cuda"):
        made = origin_call(module, call.receiver) if call.receiver is not None else None
        if made is None or made.name not in _CREATE or made.node is not call.receiver:
            continue
        if module.loops_around(call.node) and made.argument("device").is_absent:
            yield rule.hit(
                call.span,
                f"`{module.text(call.node)}` is created on the CPU and copied, in every step.",
                remedy=f"Create it there: {module.text(made.node.func)}(..., device=...).",
            )
