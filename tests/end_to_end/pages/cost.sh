# An endpoint in service, and an instance with a GPU.
python - <<'END'
import io
import tarfile

import boto3

archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w:gz") as packed:
    code = b"def model_fn(folder): return sum\n"
    entry = tarfile.TarInfo("code/inference.py")
    entry.size = len(code)
    packed.addfile(entry, io.BytesIO(code))
s3, sagemaker, ec2 = (boto3.client(name) for name in ("s3", "sagemaker", "ec2"))
s3.create_bucket(Bucket="models")
s3.put_object(Bucket="models", Key="chat/model.tar.gz", Body=archive.getvalue())
image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6-gpu-py312"
sagemaker.create_model(
    ModelName="chat",
    ExecutionRoleArn="arn:aws:iam::123456789012:role/emulator",
    PrimaryContainer={"Image": image, "ModelDataUrl": "s3://models/chat/model.tar.gz"},
)
variant = {"VariantName": "main", "ModelName": "chat", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
sagemaker.create_endpoint_config(EndpointConfigName="chat", ProductionVariants=[variant])
sagemaker.create_endpoint(EndpointName="chat-endpoint", EndpointConfigName="chat")
sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="chat-endpoint", WaiterConfig={"Delay": 1})
image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
ec2.run_instances(ImageId=image, InstanceType="g5.xlarge", MinCount=1, MaxCount=1)
END
