import sagemaker
from sagemaker.tensorflow import TensorFlow

job = TensorFlow(
    entry_point="main.py",
    source_dir="code",
    role=sagemaker.get_execution_role(),
    framework_version="2.12",
    py_version="py310",
    instance_count=1,
    instance_type="ml.g4dn.12xlarge",
    model_dir=False,
    distribution={"mpi": {"enabled": True, "processes_per_host": 8, "custom_mpi_options": "--NCCL_DEBUG INFO"}},
    hyperparameters={"epochs": 12},
)
job.fit({"train": "s3://weather-radar-eu/windows/train"})
