import boto3

sagemaker = boto3.client("sagemaker")
sagemaker.delete_endpoint(EndpointName="toxic")
sagemaker.delete_endpoint_config(EndpointConfigName="toxic")
