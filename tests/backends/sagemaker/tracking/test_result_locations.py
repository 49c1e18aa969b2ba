"""Where a job's results are, according to SageMaker's description of it."""

from __future__ import annotations

from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.backends.sagemaker.tracking.result_locations import results_of


def test_a_training_jobs_archives_lie_below_its_output_path_and_name() -> None:
    description = {"TrainingJobName": "job", "OutputDataConfig": {"S3OutputPath": "s3://b/some/where/"}}
    assert results_of("training", description).archives == S3Prefix("b", "some/where/job/output/")


def test_a_processing_jobs_outputs_have_names_and_the_verdict_is_none_of_them() -> None:
    outputs = [
        {"OutputName": "rows", "S3Output": {"S3Uri": "s3://b/rows", "LocalPath": "/opt/ml/processing/rows"}},
        {"OutputName": "gpuproof", "S3Output": {"S3Uri": "s3://b/runs/x/verdict/", "LocalPath": "/o"}},
        {"OutputName": "features", "FeatureStoreOutput": {"FeatureGroupName": "f"}},
    ]
    found = results_of("processing", {"ProcessingOutputConfig": {"Outputs": outputs}})
    assert found.outputs == {"rows": S3Prefix("b", "rows/")}
    assert found.verdict == S3Prefix("b", "runs/x/verdict/")


def test_a_job_without_an_output_has_no_results() -> None:
    assert results_of("training", {"TrainingJobName": "job"}).archives is None
    assert results_of("processing", {}).outputs == {}
