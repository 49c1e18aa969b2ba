"""Programs that the SageMaker SDK v3 sends along as the channel `sm_drivers`.

Source: sagemaker-train/src/sagemaker/train/constants.py and container_drivers of https://github.com/aws/sagemaker-python-sdk.
"""

from __future__ import annotations

from pathlib import Path

_SCRIPT = "input/data/sm_drivers/sm_train.sh"
_MPI = "distributed_drivers/mpi_driver.py"


def driver_problem(ml: Path) -> str | None:
    """Why a job cannot be started with the SDK's programs; `None` if it can, and for jobs without them.

    The one for MPI starts an ssh server as root and appends all variables, credentials too, to `/etc/environment`: in a
    container that is private, here it is this machine's.

    Args:
        ml: the `/opt/ml` of one host.
    """
    try:
        script = (ml / _SCRIPT).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    if _MPI not in script:
        return None
    return (
        "distributed=MPI() of the SageMaker SDK v3 starts the ranks through an ssh server in the image, which this emulator "
        "does not have. Use distributed=Torchrun(), the SageMaker SDK v2 with distribution={'mpi': {'enabled': True}}, or "
        "'gpuproof run --on sagemaker --distribution mpi': they run here without ssh"
    )
