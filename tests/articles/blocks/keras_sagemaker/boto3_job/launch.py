import boto3

client = boto3.client("sagemaker")
client.create_training_job(
    TrainingJobName="digits",
    AlgorithmSpecification={
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training",
        "TrainingInputMode": "File",
    },
    RoleArn="arn:aws:iam::123456789012:role/Training",
    ResourceConfig={"InstanceCount": 1, "InstanceType": "ml.p2.xlarge", "VolumeSizeInGB": 50},
    InputDataConfig=[
        {
            "ChannelName": "training",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://example-bucket/train"}},
        }
    ],
    OutputDataConfig={"S3OutputPath": "s3://example-bucket/models"},
    HyperParameters={"epochs": "10", "batch_size": "32"},
)
