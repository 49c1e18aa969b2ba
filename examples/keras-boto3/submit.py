"""Starts src/train.py on SageMaker with boto3 alone, and waits for the end: `submit.py NAME [--instances 2]`."""

import argparse
import io
import json
import sys
import tarfile
import time

import boto3

IMAGE = "tensorflow-training:2.21.0-gpu-py312-cu129-amzn2023-sagemaker"
"""With a tag: without one it would be `latest`, which AWS's repositories do not have. `gpuproof gpus ml.g5.xlarge` prints others."""

RUNNING = ("InProgress", "Stopping")


def main() -> None:
    arguments = parse_arguments()
    session = boto3.Session()
    account, region = session.client("sts").get_caller_identity()["Account"], session.region_name
    bucket = f"gpuproof-{account}-{region}"  # from `gpuproof setup`, as is the role
    name = arguments.name
    folder = f"gpuproof/{name}"  # that role may use what is below `gpuproof/`
    s3, sagemaker = session.client("s3"), session.client("sagemaker")
    s3.upload_fileobj(packed("src"), bucket, f"{folder}/sourcedir.tar.gz")
    s3.upload_file("data/digits.npz", bucket, f"{folder}/data/digits.npz")
    sagemaker.create_training_job(
        TrainingJobName=name,
        RoleArn=f"arn:aws:iam::{account}:role/gpuproof-sagemaker",
        AlgorithmSpecification={
            "TrainingImage": f"763104351884.dkr.ecr.{region}.amazonaws.com/{IMAGE}",
            "TrainingInputMode": "File",
        },
        HyperParameters={
            "epochs": str(arguments.epochs),
            "sagemaker_program": "watch.sh",  # "train.py" would run without the proof
            "sagemaker_submit_directory": f"s3://{bucket}/{folder}/sourcedir.tar.gz",
            "sagemaker_region": region,
            # The toolkit in the image then sets TF_CONFIG; ResourceConfig has no setting for it.
            "sagemaker_multi_worker_mirrored_strategy_enabled": json.dumps(arguments.instances > 1),
        },
        Environment={"VERDICTS": f"s3://{bucket}/{folder}/verdicts"},
        InputDataConfig=[
            {
                "ChannelName": "training",
                "DataSource": {
                    "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/{folder}/data/"}
                },
            }
        ],
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/{folder}/output"},
        ResourceConfig={
            "InstanceType": "ml.g5.xlarge",
            "InstanceCount": arguments.instances,
            "VolumeSizeInGB": 30,
        },
        # Without it, a job that hangs is billed for a day.
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )
    while (job := sagemaker.describe_training_job(TrainingJobName=name))["TrainingJobStatus"] in RUNNING:
        time.sleep(5)
    print(job["TrainingJobStatus"], job.get("FailureReason", ""))
    print(f"gpuproof verdict s3://{bucket}/{folder}/verdicts")
    sys.exit(0 if job["TrainingJobStatus"] == "Completed" else 1)


def packed(folder: str) -> io.BytesIO:
    """The folder's files as a .tar.gz."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
    file.seek(0)
    return file


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the job, used once in an account and region")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--instances", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
