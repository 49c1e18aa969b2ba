"""SageMaker SDK v3: `ModelTrainer.train` with `MPI` on one host or on several, with 2 ranks on each."""

import json
import sys
from pathlib import Path

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.distributed import MPI

role, image, count = sys.argv[1:]
hosts = int(count)
source = str(Path(__file__).parent / "source")


def start(script: str) -> str:
    trainer = ModelTrainer(
        training_image=image,
        role=role,
        source_code=SourceCode(source_dir=source, entry_script=script),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=hosts),
        # The SDK starts this number of ranks on all hosts together.
        distributed=MPI(
            process_count_per_node=2 * hosts,
            mpi_additional_options=["--map-by", "ppr:2:node", "-x", "NCCL_DEBUG=WARN"],
        ),
        base_job_name="v3-mpi",
    )
    trainer.train(wait=False)
    return trainer._latest_training_job.training_job_name


print(json.dumps({"training": start("train_mpi.py"), "failing": start("fail_mpi.py")}))
