import aws_cdk as cdk
from infra.train_stack import TrainStack

app = cdk.App()
TrainStack(app, "Train", env=cdk.Environment(region="us-west-2", account="123456789012"))
app.synth()
