import aws_cdk as cdk
from stacks.endpoints import EndpointsStack

app = cdk.App()
region = "us-east-1"
EndpointsStack(app, "Endpoints", env=cdk.Environment(account="123456789012", region=region))
app.synth()
