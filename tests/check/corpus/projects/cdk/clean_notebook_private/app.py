import aws_cdk as cdk
from lab.stack import LabStack

app = cdk.App()
LabStack(app, "Lab", env=cdk.Environment(account="123456789012", region="eu-west-1"))
app.synth()
