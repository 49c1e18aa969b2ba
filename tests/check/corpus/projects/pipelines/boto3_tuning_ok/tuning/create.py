import time

import boto3

IMAGE = "111122223333.dkr.ecr.ap-southeast-2.amazonaws.com/reef-train:1.4"

config = {
    "Strategy": "Bayesian",
    "HyperParameterTuningJobObjective": {"Type": "Maximize", "MetricName": "map50"},
    "ResourceLimits": {"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 2},
    "ParameterRanges": {
        "ContinuousParameterRanges": [
            {"Name": "lr", "MinValue": "0.0001", "MaxValue": "0.01", "ScalingType": "Logarithmic"},
        ],
    },
    "TrainingJobEarlyStoppingType": "Auto",
}
definition = {
    "AlgorithmSpecification": {
        "TrainingImage": IMAGE,
        "TrainingInputMode": "FastFile",
        "MetricDefinitions": [{"Name": "map50", "Regex": "map50=([0-9.]+)"}],
    },
    "StaticHyperParameters": {"epochs": "40"},
    "RoleArn": "arn:aws:iam::123456789012:role/Tuning",
    "InputDataConfig": [
        {
            "ChannelName": "images",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://reef-images/v2/"}},
        }
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://reef-models/tuning/"},
    "ResourceConfig": {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 150},
    "StoppingCondition": {"MaxRuntimeInSeconds": 4 * 3600},
}

if __name__ == "__main__":
    client = boto3.client("sagemaker", region_name="ap-southeast-2")
    client.create_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=time.strftime("reef-%m%d-%H%M%S"),
        HyperParameterTuningJobConfig=config,
        TrainingJobDefinition=definition,
    )
