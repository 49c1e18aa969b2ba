import boto3

client = boto3.client("sagemaker")
client.delete_endpoint(EndpointName="helmets")
client.delete_endpoint_config(EndpointConfigName="helmets")
