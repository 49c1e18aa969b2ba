import os

from sagemaker.tensorflow import TensorFlow

job = TensorFlow(
    entry_point="train.py",
    source_dir="src",
    role=os.environ["ROLE"],
    instance_count=1,
    instance_type="ml.g4dn.xlarge",
    framework_version="2.19",
    py_version="py312",
    max_run=3600,
    hyperparameters={"epochs": 2, "batch_size": 32, "learning_rate": 0.001},
)
job.fit()
print("model:", job.model_data)
