"""What a user submitted, as a job's description says it."""

from __future__ import annotations

from gpuproof.backends.sagemaker.tracking.submitted import job_facts

CHANNELS = [{"ChannelName": "train"}, {"ChannelName": "code"}]


def test_the_channel_with_the_source_is_not_one_of_the_users() -> None:
    assert job_facts({"InputDataConfig": CHANNELS}, is_ours=True).channels == ("train",)
    assert job_facts({"InputDataConfig": CHANNELS}, is_ours=False).channels == ("train", "code")


def test_a_users_channel_named_code_stays_beside_the_source() -> None:
    both = [*CHANNELS, {"ChannelName": "gpuproof"}]
    assert job_facts({"InputDataConfig": both}, is_ours=True).channels == ("train", "code")


def test_the_toolkits_hyperparameters_name_the_launcher() -> None:
    given = {"lr": "0.1", "sagemaker_torch_distributed_enabled": "true"}
    facts = job_facts({"HyperParameters": given, "Environment": {"NCCL_DEBUG": "INFO"}}, is_ours=False)
    assert (facts.hyperparameters, facts.launcher) == (("lr",), "torchrun")
    assert facts.environment == {"NCCL_DEBUG": "INFO"}
    assert job_facts({}, is_ours=False).launcher is None
