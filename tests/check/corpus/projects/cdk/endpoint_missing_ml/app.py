#!/usr/bin/env python3
import aws_cdk as cdk
from stacks.serving_stack import ServingStack

app = cdk.App()
ServingStack(app, "Classifier", env=cdk.Environment(account="123456789012", region="us-east-1"))
app.synth()
