#!/bin/bash
set -euo pipefail
export AWS_DEFAULT_REGION=us-east-1
export AWS_ACCESS_KEY_ID=AKIAGPUPROOFDOCS2345
export AWS_SECRET_ACCESS_KEY=GPUproofDocsOnlyNotARealSecretKey012345
AMI=$(aws ssm get-parameter \
  --name /aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id \
  --query Parameter.Value --output text)
aws ec2 run-instances \
  --image-id "$AMI" \
  --instance-type p3dn.16xlarge \
  --count 1 \
  --key-name training \
  --iam-instance-profile Name=training \
  --instance-initiated-shutdown-behavior terminate \
  --block-device-mappings 'DeviceName=/dev/sda1,Ebs={VolumeSize=300,VolumeType=gp3}' \
  --user-data file://boot.sh \
  --tag-specifications 'ResourceType=instance,Tags=[{Key=Name,Value=protein-folding}]'
