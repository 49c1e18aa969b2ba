#!/bin/bash
set -e
aws cloudformation deploy --stack-name vision-course --template-file template.yaml --capabilities CAPABILITY_IAM
