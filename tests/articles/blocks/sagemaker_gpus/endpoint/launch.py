import sagemaker
from sagemaker.predictor import Predictor
from sagemaker.pytorch import PyTorchModel

model = PyTorchModel(
    model_data="s3://example-bucket/resnet/model.tar.gz",
    role=sagemaker.get_execution_role(),
    entry_point="inference.py",
    source_dir="src",
    framework_version="2.0",
    py_version="py310",
    instance_type="ml.g4dn.xlarge",
)
predictor = model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge", predictor_cls=Predictor)
