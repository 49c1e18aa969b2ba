"""Start a GPU instance that trains once, copies the result to S3 and terminates itself."""
import argparse
from pathlib import Path

import boto3

AMI = "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"


def launch(args):
    script = (Path(__file__).parent / "user_data.sh").read_text().replace("@BUCKET@", args.bucket)
    ec2 = boto3.client("ec2", region_name=args.region)
    reply = ec2.run_instances(
        ImageId=AMI,
        InstanceType="ml.g5.xlarge",
        MinCount=1,
        MaxCount=1,
        IamInstanceProfile={"Name": "training-host"},
        InstanceInitiatedShutdownBehavior="terminate",
        UserData=script,
        SubnetId=args.subnet,
        MetadataOptions={"HttpTokens": "required"},
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 150, "VolumeType": "gp3"}}],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "train-once"}]}],
    )
    return reply["Instances"][0]["InstanceId"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--subnet", required=True)

    print(launch(parser.parse_args()))
