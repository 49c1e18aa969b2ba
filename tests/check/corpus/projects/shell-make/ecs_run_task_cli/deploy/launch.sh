#!/bin/bash
set -euo pipefail
AMI=$(aws ssm get-parameter \
  --name /aws/service/ecs/optimized-ami/amazon-linux-2/recommended/image_id \
  --query Parameter.Value --output text)
aws ec2 run-instances \
  --region us-east-1 \
  --image-id "$AMI" \
  --instance-type g5.xlarge \
  --iam-instance-profile Name=ecsInstanceRole \
  --user-data file://deploy/user_data.sh
aws ecs register-task-definition --cli-input-json file://deploy/task.json
aws ecs run-task --cluster scoring --task-definition scorer --launch-type EC2
