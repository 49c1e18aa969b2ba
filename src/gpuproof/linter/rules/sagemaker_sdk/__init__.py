"""Calls of the SageMaker SDKs and boto3: rules SDK."""
