"""The SageMaker backend: plans, submits and follows training and processing jobs with boto3."""
