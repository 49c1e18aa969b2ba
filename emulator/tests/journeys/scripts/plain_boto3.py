"""boto3 only: a training job, a processing job that reads its model, and an endpoint that serves it; deletes all of them."""

import json
import sys

import boto3

role, bucket, image = sys.argv[1:]
TRAIN = "import json; json.dump(3, open('/opt/ml/model/factor.json', 'w')); print('trained', flush=True)"
PROCESS = (
    "import tarfile; names = tarfile.open('/opt/ml/processing/model/model.tar.gz').getnames(); "
    "open('/opt/ml/processing/names/names.txt', 'w').write(' '.join(names))"
)
HANDLER = """
import json, os

def model_fn(model_dir):
    return json.load(open(os.path.join(model_dir, "factor.json")))

def predict_fn(values, model):
    return [value * model for value in values]
"""
LIMIT = {"MaxRuntimeInSeconds": 120}
MACHINE = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}


def train(sagemaker):
    sagemaker.create_training_job(
        TrainingJobName="trained",
        RoleArn=role,
        AlgorithmSpecification={
            "TrainingImage": image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", "-c", TRAIN],
        },
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        ResourceConfig=MACHINE,
        StoppingCondition=LIMIT,
    )
    sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="trained")
    job = sagemaker.describe_training_job(TrainingJobName="trained")
    return job["TrainingJobStatus"], job["ModelArtifacts"]["S3ModelArtifacts"]


def process(sagemaker, model):
    place = {"S3DataType": "S3Prefix", "S3InputMode": "File", "LocalPath": "/opt/ml/processing/model"}
    names = {
        "S3Uri": f"s3://{bucket}/names",
        "LocalPath": "/opt/ml/processing/names",
        "S3UploadMode": "EndOfJob",
    }
    sagemaker.create_processing_job(
        ProcessingJobName="processed",
        RoleArn=role,
        AppSpecification={"ImageUri": image, "ContainerEntrypoint": ["python3", "-c", PROCESS]},
        ProcessingInputs=[{"InputName": "model", "S3Input": {"S3Uri": model, **place}}],
        ProcessingOutputConfig={"Outputs": [{"OutputName": "names", "S3Output": names}]},
        ProcessingResources={"ClusterConfig": MACHINE},
        StoppingCondition=LIMIT,
    )
    sagemaker.get_waiter("processing_job_completed_or_stopped").wait(ProcessingJobName="processed")
    body = boto3.client("s3").get_object(Bucket=bucket, Key="names/names.txt")["Body"]
    return body.read().decode()


def serve(sagemaker, model):
    import io
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("inference.py")
        member.size = len(HANDLER)
        archive.addfile(member, io.BytesIO(HANDLER.encode()))
    boto3.client("s3").put_object(Bucket=bucket, Key="code/sourcedir.tar.gz", Body=packed.getvalue())
    variables = {
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": f"s3://{bucket}/code/sourcedir.tar.gz",
    }
    container = {"Image": image, "ModelDataUrl": model, "Environment": variables}
    sagemaker.create_model(ModelName="model", ExecutionRoleArn=role, PrimaryContainer=container)
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "model",
        "InitialInstanceCount": 1,
        "InstanceType": "ml.g5.xlarge",
    }
    sagemaker.create_endpoint_config(EndpointConfigName="config", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="endpoint", EndpointConfigName="config")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="endpoint")
    answer = boto3.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="endpoint", Body=b"[1, 2]", ContentType="application/json", Accept="application/json"
    )
    return json.loads(answer["Body"].read())


def remove(sagemaker):
    sagemaker.delete_endpoint(EndpointName="endpoint")
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName="endpoint")
    sagemaker.delete_endpoint_config(EndpointConfigName="config")
    sagemaker.delete_model(ModelName="model")
    return [
        *sagemaker.list_endpoints()["Endpoints"],
        *sagemaker.list_endpoint_configs()["EndpointConfigs"],
        *sagemaker.list_models()["Models"],
    ]


client = boto3.client("sagemaker")
status, artifact = train(client)
output = {"status": status, "names": process(client, artifact), "answer": serve(client, artifact)}
print(json.dumps({**output, "left": [str(item) for item in remove(client)]}))
