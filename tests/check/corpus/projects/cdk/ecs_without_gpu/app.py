import aws_cdk as cdk
from service.stack import UpscalerStack

app = cdk.App()
UpscalerStack(app, "Upscaler")
app.synth()
