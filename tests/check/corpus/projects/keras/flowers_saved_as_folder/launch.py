import sagemaker
from sagemaker.tensorflow import TensorFlow

session = sagemaker.Session()
role = sagemaker.get_execution_role()

estimator = TensorFlow(
    entry_point="train.py",
    source_dir="src",
    role=role,
    instance_count=1,
    instance_type="ml.g5.2xlarge",
    framework_version="2.18",
    py_version="py310",
    hyperparameters={"epochs": 15, "batch-size": 64},
    max_run=2 * 3600,
)
estimator.fit({"train": f"s3://{session.default_bucket()}/flowers/images"})
