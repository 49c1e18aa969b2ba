import os
import tarfile

import boto3

with tarfile.open("sourcedir.tar.gz", "w:gz") as archive:
    archive.add("train.py")
bucket = os.environ["BUCKET"]
boto3.client("s3").upload_file("sourcedir.tar.gz", bucket, "digits/sourcedir.tar.gz")

client = boto3.client("sagemaker")
client.create_training_job(
    TrainingJobName="digits",
    AlgorithmSpecification={
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.19.0-gpu-py312-cu125-ubuntu22.04-sagemaker",
        "TrainingInputMode": "File",
    },
    RoleArn=os.environ["ROLE"],
    ResourceConfig={"InstanceCount": 1, "InstanceType": "ml.g4dn.xlarge", "VolumeSizeInGB": 50},
    OutputDataConfig={"S3OutputPath": f"s3://{bucket}/models"},
    StoppingCondition={"MaxRuntimeInSeconds": 3600},
    HyperParameters={
        "epochs": "2",
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": f'"s3://{bucket}/digits/sourcedir.tar.gz"',
    },
)
client.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="digits")
job = client.describe_training_job(TrainingJobName="digits")
print("status:", job["TrainingJobStatus"], job.get("FailureReason", ""))
print("model:", job["ModelArtifacts"]["S3ModelArtifacts"])
