"""A plan as text and as HTML: what fits into a terminal, marks, and how times are written."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.planning.recommendation import Conditions
from gpuproof.planning.result import PlanResult
from gpuproof.planning.script_plan import ScriptPlan, make_plan
from gpuproof.planning.text import format_plan
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import CATEGORIES, Input, Memory, Note, Operator, Trace

GIB = 1 << 30
SIZE = 17_100
PRODUCT = Operator(
    *("aten.mm", "gemm", "float16", "forward", 2.0 * SIZE**3, 6.0 * SIZE**2, 1),
    *(((SIZE, SIZE), (SIZE, SIZE)), 1, (1, SIZE, SIZE, SIZE)),
)
ASSUMED = Note("value", "A value that a person would have to know was assumed, and this is a long sentence.")


def trace(samples: int = 16, mode: str = "training", batches: int = 100) -> Trace:
    """A script that computes 10 TFLOPs in float16 and holds a little memory for each sample."""
    memory = Memory([(GIB, CATEGORIES.index("parameter")), (samples << 22, 5)], [1, 2, 0, 0])
    return Trace(
        *("torch", "2.13.0", mode, 2, [PRODUCT], memory, 1, 10, 10, 40),
        input=Input(samples=samples, steps_per_epoch=batches),
        assumptions=[ASSUMED],
    )


@cache
def plan(mode: str = "training", batches: int = 100, gpus: int = 1, *, spot: bool = False) -> ScriptPlan:
    """A plan of a script with 16 samples in a batch, which was traced with 32, too."""
    sizes = TracedSizes(trace(16, mode, batches), trace(32, mode, batches))
    return make_plan(Catalogue.load(), sizes, Conditions(gpus=gpus, spot=spot))


def lines(found: ScriptPlan, width: int) -> list[str]:
    return format_plan(found, "train.py", width).splitlines()


def header(found: ScriptPlan, width: int) -> list[str]:
    return next(line for line in lines(found, width) if line.startswith("GPU ")).split()


@pytest.mark.parametrize("mode", ["training", "serving"])
@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_no_line_is_longer_than_the_terminal_and_no_instance_is_cut(
    mode: str, spot: bool, width: int
) -> None:
    found = plan(mode, spot=spot)
    text = lines(found, width)
    assert max(map(len, text)) <= width
    assert "…" not in "\n".join(text)
    (row,) = (line for line in text if line.startswith("T4 "))
    assert row.split()[-1] in ("spot", "g4dn.xlarge", "ml.g4dn.xlarge")


def test_a_pipe_gets_every_column() -> None:
    assert header(plan(), 0) == [
        "GPU",
        "NEEDS",
        "OF",
        "FIT",
        "BATCH",
        "STEP",
        "BOUND",
        "BY",
        "TIME",
        "EC2",
        "SPOT",
        "SAGEMAKER",
    ]


def test_80_columns_say_what_they_leave_out() -> None:
    assert header(plan(), 80)[-2:] == ["TIME", "CHEAPEST"]
    hidden = " ".join(lines(plan(), 80)).split("Hidden in this narrow terminal: ")[1]
    assert hidden.startswith("SPOT, OF, the range of STEP")
    assert "Hidden" not in " ".join(lines(plan(), 200))


def test_text_wraps_between_words_only() -> None:
    text = format_plan(plan(), "train.py", 60)
    assert ASSUMED.message in " ".join(text.split())


def test_spot_prices_stay_when_they_are_wanted() -> None:
    (row,) = (line for line in lines(plan(spot=True), 80) if line.startswith("T4 "))
    assert row.endswith("g4dn.xlarge spot")


def test_a_batch_of_the_whole_data_set_is_marked() -> None:
    text = format_plan(plan(batches=2), "train.py", 0)
    assert "all 32" in text
    assert 'never more than the data set has ("all")' in text


def test_a_batch_that_memory_limits_is_not_marked() -> None:
    text = format_plan(plan(batches=1_000_000), "train.py", 0)
    assert "all " not in text.split("TIME and cost")[0]
    assert "than the data set" not in text


class TestLargerInstances:
    """GPUs that AWS has only by the eight."""

    def test_an_a100_is_shown_with_the_instance_that_has_eight(self) -> None:
        (row,) = (line for line in lines(plan(), 0) if line.startswith("A100-40GB (1 of 8) "))
        assert "p4d.24xlarge" in row
        assert "(1 of 8): AWS has this GPU only in instances with several" in format_plan(plan(), "t", 0)

    def test_they_come_last_and_are_not_recommended(self) -> None:
        found = plan()
        names = [gpu.candidate.gpu.name for gpu in found.larger]
        assert "A100-40GB" in names
        assert not {gpu.candidate.gpu.name for gpu in found.gpus} & set(names)
        assert all(offer.priced.instance.gpu_count == 1 for offer in found.pareto)

    def test_who_asks_for_eight_gets_them_as_ordinary_rows(self) -> None:
        found = plan(gpus=8)
        assert not found.larger
        assert "A100-40GB" in [gpu.candidate.gpu.name for gpu in found.gpus]


def test_a_slow_step_is_in_seconds() -> None:
    found = plan()
    slow = replace(
        found.gpus[0].step, step=found.gpus[0].step.step.times(1.29 / found.gpus[0].step.step.value)
    )
    text = format_plan(replace(found, gpus=(replace(found.gpus[0], step=slow),)), "train.py", 0)
    assert "1.29 s (" in text
    assert "e+0" not in text


def test_a_notebook_gets_a_table() -> None:
    html = PlanResult.of(plan(), "<train>.py")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html.count("<tr>") == 1 + len(plan().gpus) + len(plan().larger)
    assert "&lt;train&gt;.py" in html
    assert "<train>" not in html
    assert len(html) < 20_000
