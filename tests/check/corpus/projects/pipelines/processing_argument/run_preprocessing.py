import os

from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.sklearn.processing import SKLearnProcessor

processor = SKLearnProcessor(
    framework_version="1.2-1",
    role=os.environ["ROLE"],
    instance_type="ml.m5.2xlarge",
    instance_count=1,
    base_job_name="loan-features",
    max_runtime_in_seconds=3600,
)
processor.run(
    code="scripts/preprocess.py",
    inputs=[ProcessingInput(source="s3://loan-book/raw/2024/", destination="/opt/ml/processing/input")],
    outputs=[
        ProcessingOutput(output_name="train", source="/opt/ml/processing/train", destination="s3://loan-book/train/"),
        ProcessingOutput(output_name="test", source="/opt/ml/processing/test", destination="s3://loan-book/test/"),
    ],
    arguments=["--test-ratio", "0.2"],
)
