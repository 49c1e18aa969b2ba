import sys

from sagemaker.pytorch import PyTorchModel

from common import COMMON

options = {key: COMMON[key] for key in ("role", "framework_version", "py_version", "sagemaker_session")}
model = PyTorchModel(model_data=sys.argv[1], entry_point="inference.py", source_dir="src", **options)
model.deploy(initial_instance_count=1, instance_type="ml.g4dn.xlarge", endpoint_name="helmets")
