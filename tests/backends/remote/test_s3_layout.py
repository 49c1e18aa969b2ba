"""The layout of the bucket."""

from __future__ import annotations

from gpuproof.backends.remote import s3_layout
from gpuproof.backends.remote.s3_layout import RunLayout

RUN = RunLayout("mnist-20261121-120000-ab12")


def test_all_that_is_a_runs_own_lies_below_its_prefix() -> None:
    own = [RUN.code, RUN.agent, RUN.source, RUN.job, RUN.output, RUN.model_archive, RUN.verdict]
    assert all(key.startswith(RUN.prefix) for key in own)
    assert RUN.prefix == "gpuproof/runs/mnist-20261121-120000-ab12/"


def test_the_code_channel_holds_nothing_but_code() -> None:
    assert [RUN.agent, RUN.source, RUN.job] == [
        f"{RUN.code}gpuproof-agent.pyz",
        f"{RUN.code}source.tar.gz",
        f"{RUN.code}job.json",
    ]
    assert not any(key.startswith(RUN.code) for key in (RUN.output, RUN.verdict, RUN.model_archive))


def test_archives_lie_where_sagemaker_puts_them() -> None:
    assert RUN.model_archive == f"{RUN.output}{RUN.run_id}/output/model.tar.gz"
    assert RUN.output_archive == f"{RUN.output}{RUN.run_id}/output/output.tar.gz"


def test_a_manifest_does_not_lie_in_the_folder_that_it_describes() -> None:
    assert not s3_layout.manifest_key("d1").startswith(s3_layout.input_prefix("d1"))


def test_everything_lies_below_one_prefix_that_a_policy_can_name() -> None:
    keys = [
        s3_layout.object_key("d1"),
        s3_layout.input_prefix("d1"),
        s3_layout.manifest_key("d1"),
        s3_layout.checkpoint_prefix("mnist", RUN.run_id),
        RUN.prefix,
        RUN.processing_output("report"),
    ]
    assert all(key.startswith(s3_layout.ROOT) for key in keys)
    assert s3_layout.uri("data", keys[0]) == "s3://data/gpuproof/objects/d1"


def test_no_prefix_begins_another_runs_or_jobs() -> None:
    assert not RunLayout(f"{RUN.run_id}-2").prefix.startswith(RUN.prefix)
    assert not s3_layout.checkpoint_prefix("mnist", "a-2").startswith(
        s3_layout.checkpoint_prefix("mnist", "a")
    )


def test_a_launch_record_is_found_without_listing_the_files_of_runs() -> None:
    assert RUN.launch.startswith(s3_layout.LAUNCHES)
    assert not RUN.launch.startswith(s3_layout.RUNS)
    assert s3_layout.launched_run(RUN.launch) == RUN.run_id
    assert s3_layout.launched_run(RUN.job) is None
    assert s3_layout.launched_run(f"{s3_layout.LAUNCHES}a/b.json") is None
