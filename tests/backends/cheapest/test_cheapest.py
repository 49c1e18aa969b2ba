"""A job is planned on every backend of the account, and the lowest price that it can use is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.backends.aws.errors import NoCredentials
from gpuproof.backends.cheapest.candidate import Candidate
from gpuproof.backends.cheapest.choose import Choice, NowhereToRun, choose_backend
from gpuproof.backends.registry import compared_backends
from gpuproof.errors import ExitCode, InvalidJob
from support.aws_emulator import RunningEmulator
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow

ON_DEMAND, SPOT = "L-DB2E81BA", "L-3819A6DF"
"""EC2's quotas for G instances."""

TRAINING = "L-B6D80D9C"
"""SageMaker's quota for training on ml.g5.xlarge."""


@pytest.fixture
def quotas(emulator: RunningEmulator) -> Iterator[RunningEmulator]:
    """The emulator, whose quotas are restored afterwards."""
    yield emulator
    emulator.quotas({ON_DEMAND: 500, SPOT: 500, TRAINING: 500})


def choose(sandbox: EC2PlanningSandbox, *, kind: str = "training", **keys: Any) -> Choice:
    """The choice for a job on a `g5.xlarge`."""
    return choose_backend(compared_backends(), getattr(sandbox, kind)(**keys))


def by_name(choice: Choice) -> dict[tuple[str, bool], Candidate]:
    """The candidates by backend and market."""
    return {(candidate.backend, candidate.spot): candidate for candidate in choice.candidates}


def test_ec2_on_demand_is_cheaper_than_sagemaker(sandbox: EC2PlanningSandbox) -> None:
    choice = choose(sandbox)
    assert choice.backend.name == "ec2"
    assert choice.plan.document()["backend"] == "ec2"
    found = by_name(choice)
    assert set(found) == {("ec2", False), ("ec2", True), ("sagemaker", False), ("sagemaker", True)}
    chosen, other = found["ec2", False], found["sagemaker", False]
    assert choice.candidates[0] is chosen
    assert (chosen.chosen, chosen.reason) == (True, "the lowest price")
    assert chosen.offer is not None
    assert other.offer is not None
    assert (chosen.offer.instance_type, other.offer.instance_type) == ("g5.xlarge", "ml.g5.xlarge")
    assert 0 < (chosen.offer.usd_per_hour or 0) < (other.offer.usd_per_hour or 0)
    assert other.reason.endswith("% more")
    assert [candidate.chosen for candidate in choice.candidates].count(True) == 1


def test_the_names_of_either_service_mean_the_same_type(sandbox: EC2PlanningSandbox) -> None:
    named = [
        choose(sandbox, instance_type="ml.g5.xlarge", fallbacks=["g6.xlarge"]),
        choose(sandbox, instance_type="g5.xlarge", fallbacks=["ml.g6.xlarge"]),
    ]
    prices = [{key: one.offer for key, one in by_name(choice).items()} for choice in named]
    assert prices[0] == prices[1]
    assert None not in prices[0].values()


def test_an_interruption_must_not_lose_work(sandbox: EC2PlanningSandbox) -> None:
    found = by_name(choose(sandbox))
    spot, on_demand = found["ec2", True], found["ec2", False]
    assert spot.offer is not None
    assert on_demand.offer is not None
    assert (spot.offer.usd_per_hour or 0) < (on_demand.offer.usd_per_hour or 0)
    assert not spot.chosen
    assert "without checkpoint (--spot allows it)" in spot.reason


@pytest.mark.parametrize(
    "keys", [{"resources": {"spot": True}}, {"checkpoint": "./checkpoints"}], ids=["requested", "checkpoints"]
)
def test_spot_capacity_is_chosen_where_an_interruption_is_allowed(
    sandbox: EC2PlanningSandbox, keys: dict[str, Any]
) -> None:
    choice = choose(sandbox, instance_type="g5.xlarge", **keys)
    assert (choice.backend.name, choice.candidates[0].spot) == ("ec2", True)
    assert choice.plan.offer == choice.candidates[0].offer
    launch = next(call for call in choice.plan.calls() if call.operation == "run_instances")
    assert launch.request["InstanceMarketOptions"]["MarketType"] == "spot"
    assert by_name(choice)["ec2", False].reason.endswith("% more")


def test_a_job_may_exclude_spot_capacity(sandbox: EC2PlanningSandbox) -> None:
    choice = choose(sandbox, instance_type="g5.xlarge", checkpoint="./checkpoints", resources={"spot": False})
    assert not choice.candidates[0].spot
    assert by_name(choice)["ec2", True].reason == "the job excludes spot capacity (--spot allows it)"


def test_sagemakers_spot_price_is_an_upper_bound(
    quotas: RunningEmulator, sandbox: EC2PlanningSandbox
) -> None:
    quotas.quotas({ON_DEMAND: 0, SPOT: 0})
    choice = choose(sandbox, instance_type="g5.xlarge", resources={"spot": True})
    chosen = choice.candidates[0]
    assert (chosen.backend, chosen.spot) == ("sagemaker", True)
    assert "ml.g5.xlarge at most $1.4" in choice.text.splitlines()[0]
    assert choice.plan.calls()[-1].request["EnableManagedSpotTraining"] is True


def test_a_quota_of_zero_on_ec2_leaves_sagemaker(
    quotas: RunningEmulator, sandbox: EC2PlanningSandbox
) -> None:
    quotas.quotas({ON_DEMAND: 0, SPOT: 0})
    choice = choose(sandbox)
    assert (choice.backend.name, choice.candidates[0].spot) == ("sagemaker", False)
    assert choice.candidates[0].reason == "the only backend available to this job"
    reason = by_name(choice)["ec2", False].reason
    assert "'Running On-Demand G and VT instances' is 0 vCPU, and 4 are needed" in reason
    assert "not on EC2: g5.xlarge: VcpuLimitExceeded: The quota" in choice.text.splitlines()[1]


def test_a_quota_of_zero_on_sagemaker_is_noticed(
    quotas: RunningEmulator, sandbox: EC2PlanningSandbox
) -> None:
    quotas.quotas({TRAINING: 0})
    choice = choose(sandbox)
    assert choice.backend.name == "ec2"
    refused = by_name(choice)["sagemaker", False]
    assert refused.offer is None
    assert "'ml.g5.xlarge for training job usage' is 0 instances, and 1 are needed" in refused.reason


def test_the_next_type_counts_if_the_first_has_no_quota(
    quotas: RunningEmulator, sandbox: EC2PlanningSandbox
) -> None:
    quotas.quotas({TRAINING: 0})
    found = by_name(choose(sandbox, instance_type="g5.xlarge", fallbacks=["g5.2xlarge"]))
    offer = found["sagemaker", False].offer
    assert offer is not None
    assert offer.instance_type == "ml.g5.2xlarge"


def test_no_quota_anywhere_lists_all_of_them(quotas: RunningEmulator, sandbox: EC2PlanningSandbox) -> None:
    quotas.quotas({ON_DEMAND: 0, TRAINING: 0})
    with pytest.raises(NowhereToRun) as caught:
        choose(sandbox)
    error = caught.value
    assert error.exit_code == ExitCode.AWS_REFUSED
    assert "not on SageMaker: The account's quotas" in error.message
    assert "not on EC2: The account's quotas" in error.message
    # Spot capacity would be available.
    assert "on EC2 with spot capacity, g5.xlarge at $0." in error.message
    assert "--spot allows it" in error.message
    assert "--quota-code L-DB2E81BA" in (error.remedy or "")
    assert "--quota-code L-B6D80D9C" in (error.remedy or "")


def test_a_framework_that_no_ami_has_leaves_sagemaker(sandbox: EC2PlanningSandbox) -> None:
    choice = choose(sandbox, framework="tensorflow", framework_version="2.13")
    assert choice.backend.name == "sagemaker"
    assert "no AWS Deep Learning AMI with tensorflow 2.13" in by_name(choice)["ec2", False].reason
    # The reason of EC2 on demand is not repeated for its spot capacity.
    assert choice.text.count("not on EC2") == 1


def test_a_processing_job_has_no_spot_capacity_on_sagemaker(sandbox: EC2PlanningSandbox) -> None:
    choice = choose(sandbox, kind="processing")
    assert choice.backend.name == "ec2"
    assert ("sagemaker", True) not in by_name(choice)


def test_an_error_of_the_job_itself_is_stated_once(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(InvalidJob, match="sets neither instance_type nor resources"):
        choose(sandbox, resources={})


def test_a_type_without_a_known_price_is_not_chosen(sandbox: EC2PlanningSandbox) -> None:
    found = by_name(choose(sandbox, instance_type="g5g.xlarge"))
    assert found["sagemaker", False].reason == "its price is unknown"


def test_missing_permissions_on_one_service_leave_the_other(sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.faults("access-denied,service=ec2,operation=DescribeSubnets")
    choice = choose(sandbox)
    assert choice.backend.name == "sagemaker"
    assert "ec2:DescribeSubnets" in by_name(choice)["ec2", False].reason


def test_without_credentials_no_backend_is_compared(
    sandbox: EC2PlanningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(NoCredentials) as caught:
        choose(sandbox)
    assert caught.value.exit_code == ExitCode.UNDECIDED


def test_a_comparison_creates_nothing(sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.forget_requests()
    choose(sandbox)
    reading = ("Describe", "Get", "Head", "List", "Search")
    writing = {name for name in sandbox.emulator.operations() if not name.startswith(reading)}
    # The emulator itself registers the image that a parameter names.
    assert writing <= {"RegisterImage"}
