"""SageMaker SDK v3: `ModelTrainer.train` with `Torchrun` on two hosts."""

import json
import sys
from pathlib import Path

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.distributed import Torchrun

role, image = sys.argv[1:]
source = str(Path(__file__).parent / "source")
trainer = ModelTrainer(
    training_image=image,
    role=role,
    compute=Compute(instance_type="ml.g5.xlarge", instance_count=2),
    source_code=SourceCode(source_dir=source, entry_script="train_digits.py"),
    distributed=Torchrun(process_count_per_node=1),
    base_job_name="v3",
)
trainer.train()
job = trainer._latest_training_job
print(json.dumps({"status": job.training_job_status, "job": job.training_job_name}))
