# A training job that has ended.
python - <<'END'
import boto3

sagemaker = boto3.client("sagemaker")
sagemaker.create_training_job(
    TrainingJobName="bert-2026-11-20",
    RoleArn="arn:aws:iam::123456789012:role/emulator",
    AlgorithmSpecification={
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6-gpu-py312",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python", "-c", "print('trained')"],
    },
    OutputDataConfig={"S3OutputPath": "s3://models/out"},
    ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    StoppingCondition={"MaxRuntimeInSeconds": 3600},
) if boto3.client("s3").create_bucket(Bucket="models") else None
sagemaker.get_waiter("training_job_completed_or_stopped").wait(
    TrainingJobName="bert-2026-11-20", WaiterConfig={"Delay": 1}
)
END
