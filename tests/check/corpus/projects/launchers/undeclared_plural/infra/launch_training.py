"""Start the training job from CI."""
from pathlib import Path

import boto3
import sagemaker
from sagemaker.pytorch import PyTorch

ROOT = Path(__file__).resolve().parents[1]


def launch(bucket: str, epochs: int) -> str:
    session = sagemaker.Session(boto3.Session(region_name="eu-west-1"))
    estimator = PyTorch(
        entry_point="main.py",
        source_dir=str(ROOT / "training"),
        role="arn:aws:iam::111122223333:role/SageMakerTraining",
        framework_version="2.5.1",
        py_version="py311",
        instance_count=1,
        instance_type="ml.g5.4xlarge",
        hyperparameters={"epoch": epochs, "batch": 512},
        sagemaker_session=session,
        max_run=4 * 3600,
    )
    estimator.fit({"training": f"s3://{bucket}/audio/train"}, wait=False)
    return estimator.latest_training_job.name


if __name__ == "__main__":
    print(launch("speech-commands-eu", 40))
