import aws_cdk as cdk
from stacks.tune import TuneStack

app = cdk.App()
TuneStack(
    app,
    "Tune",
    role_arn="arn:aws:iam::123456789012:role/ForestTraining",
    image="123456789012.dkr.ecr.us-east-1.amazonaws.com/forest:12",
    env=cdk.Environment(region="us-east-1", account="123456789012"),
)
app.synth()
