import sagemaker
from sagemaker.tensorflow import TensorFlow

estimator = TensorFlow(
    entry_point="classify.py",
    role=sagemaker.get_execution_role(),
    framework_version="2.16",
    py_version="py310",
    instance_count=1,
    instance_type="ml.g4dn.2xlarge",
    model_dir=False,
    max_run=3 * 3600,
)
estimator.fit({"training": "s3://urban-sounds/mel/"})
