import boto3

client = boto3.client("sagemaker")
client.delete_endpoint(EndpointName="spam-cpu")
client.delete_endpoint_config(EndpointConfigName="spam-cpu")
