"""SageMaker SDK v3: `ModelTrainer.train`."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode

role, image, data = sys.argv[1:]
trainer = ModelTrainer(
    training_image=image,
    role=role,
    source_code=SourceCode(source_dir=str(Path(__file__).parent / "source"), entry_script="train.py"),
    compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
    hyperparameters={"epochs": 2, "name": "two words"},
    environment={"VARIABLE": "given"},
    base_job_name="v3",
)
trainer.train(input_data_config=[InputData(channel_name="training", data_source=data)])
job = trainer._latest_training_job
print(
    json.dumps(
        {
            "version": version("sagemaker"),
            "status": job.training_job_status,
            "job": job.training_job_name,
            "model": job.model_artifacts.s3_model_artifacts,
        }
    )
)
