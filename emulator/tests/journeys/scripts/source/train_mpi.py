"""A script for SageMaker's MPI mode: each rank works on its part of the data, and all agree on the result."""

import json
import os

from mpi4py import MPI

world = MPI.COMM_WORLD
part = [number for number in range(20) if number % world.size == world.rank]
report = {
    "rank": world.rank,
    "local_rank": int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]),
    "host": MPI.Get_processor_name(),
    "current_host": os.environ["SM_CURRENT_HOST"],
    "nccl_debug": os.environ["NCCL_DEBUG"],
    "part": part,
    "total": world.allreduce(sum(part)),
}
reports = world.gather(report)
if world.rank == 0:
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "reports.json"), "w") as file:
        json.dump(reports, file)
    print(f"MPI {json.dumps(reports)}\n", end="", flush=True)
