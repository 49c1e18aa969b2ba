import os

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode, StoppingCondition

REGION = os.environ.get("AWS_REGION", "eu-central-1")

trainer = ModelTrainer(
    training_image=f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker",
    source_code=SourceCode(source_dir="code", entry_script="main.py", requirements="requirements.txt"),
    compute=Compute(instance_type="ml.g6e.2xlarge", instance_count=1, volume_size_in_gb=200),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=4 * 3600),
    hyperparameters={"epochs": 12},
    base_job_name="tts-encoder",
    role="arn:aws:iam::777788889999:role/SageMaker-Training",
)
trainer.train(input_data_config=[InputData(channel_name="train", data_source="s3://tts-corpora/vctk/")])
