"""How often a spot run is started again: from the flag, else from the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs import override_job
from gpuproof.jobs.models.script_jobs import TrainingJob
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow


def plan(sandbox: EC2PlanningSandbox, job: TrainingJob, flag: int | str | None) -> EC2Plan:
    return sandbox.plan(override_job(job, {"retry_spot": flag}, Path("/")))


def spot_job(sandbox: EC2PlanningSandbox, retries: int = 0, *, spot: bool = True) -> TrainingJob:
    resources = {"spot": spot, "gpu": "A10G:1"}
    return sandbox.training(resources=resources, ec2={"retry_spot": retries})


@pytest.mark.parametrize(("in_job", "flag", "limit"), [(3, None, 3), (3, 1, 1), (0, 2, 2), (3, 0, 0)])
def test_the_flag_takes_precedence_over_the_job(
    sandbox: EC2PlanningSandbox, in_job: int, flag: int | None, limit: int
) -> None:
    assert plan(sandbox, spot_job(sandbox, in_job), flag).retries.limit == limit


def test_the_plan_names_the_retries_and_what_they_may_cost(sandbox: EC2PlanningSandbox) -> None:
    once, often = (plan(sandbox, spot_job(sandbox), flag) for flag in (0, 3))
    lines = dict(often.describe())
    assert "started again at most 3 times, from its checkpoints" in lines["spot"]
    assert "1h, started again at most 3 times; at most" in lines["time limit"]
    assert often.max_cost_usd(often.target) == pytest.approx(4 * (once.max_cost_usd(once.target) or 0))
    assert often.max_usd == max(often.max_cost_usd(target) or 0 for target in often.targets)


def test_on_demand_runs_have_none(sandbox: EC2PlanningSandbox) -> None:
    assert plan(sandbox, spot_job(sandbox, 3, spot=False), None).retries.limit == 0
    with pytest.raises(UsageError, match="no effect without spot capacity"):
        plan(sandbox, spot_job(sandbox, spot=False), 2)


def test_what_a_rebalance_recommendation_leads_to_is_an_option(sandbox: EC2PlanningSandbox) -> None:
    job = spot_job(sandbox)
    usual = sandbox.plan(job)
    assert usual.host_parameters(usual.target).rebalance == "checkpoint"
    stopping = sandbox.plan(override_job(job, {"rebalance": "stop"}, Path("/")))
    assert stopping.host_parameters(stopping.target).rebalance == "stop"
    assert "ends when EC2 says" in dict(stopping.describe())["spot"]
    assert "ends when EC2 says" not in dict(usual.describe())["spot"]
    with pytest.raises(UsageError, match="--rebalance has no effect without spot capacity"):
        override_job(spot_job(sandbox, spot=False), {"rebalance": "stop"}, Path("/"))


@pytest.mark.parametrize("value", [-1, "two", 101, "²"])
def test_a_value_that_is_no_number_in_range_is_wrong_usage(
    sandbox: EC2PlanningSandbox, value: int | str
) -> None:
    with pytest.raises(
        UsageError, match=r"--retry-spot must be (at least 0|at most 100|a whole number), not"
    ):
        plan(sandbox, spot_job(sandbox), value)


def test_a_job_with_too_many_is_refused(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(InvalidJob, match=r"ec2\.retry_spot"):
        spot_job(sandbox, 101)
