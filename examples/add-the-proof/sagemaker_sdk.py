"""Starts train.py on SageMaker with the SageMaker Python SDK v3."""

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode

trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8-gpu-py312",
    role="arn:aws:iam::123456789012:role/sagemaker",
    source_code=SourceCode(
        source_dir="examples/add-the-proof",
        command="python gpuproof-agent.pyz watch -- python train.py",  # changed; was entry_script="train.py"
    ),
    compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
    base_job_name="digits",
)
trainer.train()
