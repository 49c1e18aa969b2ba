import aws_cdk as cdk
from jobs.stack import JobsStack

app = cdk.App()
JobsStack(app, "Jobs", env=cdk.Environment(account="123456789012", region="us-east-1"))
app.synth()
