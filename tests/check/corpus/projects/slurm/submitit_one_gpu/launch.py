import submitit
from finetune import Finetune

executor = submitit.AutoExecutor(folder="logs/%j")
executor.update_parameters(
    name="asr",
    nodes=1,
    tasks_per_node=1,
    gpus_per_node=8,
    cpus_per_task=10,
    mem_gb=120,
    timeout_min=600,
    slurm_partition="devlab",
)
job = executor.submit(Finetune("/checkpoint/wav2vec2", "/datasets/minds14"))
print("submitted", job.job_id)
