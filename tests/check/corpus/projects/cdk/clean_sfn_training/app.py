import aws_cdk as cdk
from pipeline.stack import PipelineStack

app = cdk.App()
PipelineStack(app, "NightlyTraining", env=cdk.Environment(region="eu-central-1", account="123456789012"))
app.synth()
