"""`gpuproof.plan_step` for models in memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gpuproof
from gpuproof.errors import UsageError
from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.tracing import NotTraceable

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.slow


def model(width: int = 1024) -> Any:
    return nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 10))


def allocated(plan: ScriptPlan, category: str) -> int:
    return plan.gpus[0].memory.by_category.get(category, 0)


def test_a_step_has_parameters_gradients_and_the_optimizers_state() -> None:
    network = model()
    size = sum(parameter.numel() * 4 for parameter in network.parameters())
    rounding = 4 * 512  # of the allocator, for each of four tensors
    plan = gpuproof.plan_step(
        *(network, torch.randn(32, 256), torch.optim.AdamW),
        loss=nn.functional.cross_entropy,
        target=torch.randint(0, 10, (32,)),
    )
    assert (plan.trace.optimizer, plan.trace.mode, plan.trace.input.samples) == ("AdamW", "training", 32)
    assert size <= allocated(plan, "parameter") < size + rounding
    # Two moments, and temporaries of the step.
    assert 2 * size <= allocated(plan, "optimizer") < 4 * size
    assert all(gpu.step.step.value > 0 for gpu in plan.gpus)
    assert (plan.gpus[0].largest_batch or 0) > 32


def test_the_callers_model_and_process_are_not_changed() -> None:
    network = model()
    before = copy.deepcopy(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    plan = gpuproof.plan_step(network, torch.randn(8, 256), optimizer)
    assert plan.trace.optimizer == "SGD"
    assert allocated(plan, "optimizer") == allocated(plan, "parameter")
    assert not optimizer.state
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert network.training
    assert torch.cuda.is_available() is (torch.cuda.device_count() > 0)
    assert type(torch.ones(2)) is torch.Tensor


def test_shapes_arguments_and_inference() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 4)

        def forward(self, left: Any, right: Any) -> Any:
            return self.layer(left + right)

    for batch in (((8, 16), (8, 16)), {"left": torch.ones(8, 16), "right": (8, 16)}):
        plan = gpuproof.plan_step(Pair(), batch)
        assert (plan.trace.mode, plan.trace.input.samples) == ("inference", 8)
        assert allocated(plan, "gradient") == 0


def test_mixed_precision_is_traced() -> None:
    plan = gpuproof.plan_step(model(), (8, 256), torch.optim.SGD, autocast="bfloat16")
    assert plan.trace.precision == "amp-bfloat16"
    assert any(operator.dtype == "bfloat16" for operator in plan.trace.operators if operator.kind == "gemm")


def test_a_step_that_fails_names_its_line() -> None:
    with pytest.raises(NotTraceable, match="The step raised RuntimeError"):
        gpuproof.plan_step(model(), (8, 100), torch.optim.SGD)

    def loss(output: Any) -> Any:
        raise ValueError("no labels")

    with pytest.raises(
        NotTraceable, match=r"test_model_step.py, line \d+: The step raised ValueError: no labels"
    ):
        gpuproof.plan_step(model(), (8, 256), torch.optim.SGD, loss=loss)


def test_a_step_that_hangs_is_ended() -> None:
    def loss(output: Any) -> Any:
        while True:
            pass

    with pytest.raises(NotTraceable, match="not traced within 5 s"):
        gpuproof.plan_step(model(), (8, 256), torch.optim.SGD, loss=loss, timeout=5.0)


def test_what_is_no_model_of_pytorch_is_refused() -> None:
    with pytest.raises(UsageError, match=r"takes a torch\.nn\.Module, not builtins\.str"):
        gpuproof.plan_step("model", (8, 256))
