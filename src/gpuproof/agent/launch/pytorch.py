"""The variables that SageMaker's PyTorch toolkit sets in every training job, whatever starts the script.

Sources: sagemaker-pytorch-training 3.0.0, sagemaker_pytorch_container/training.py; sagemaker-training 5.1.4,
sagemaker_training/torch_distributed.py and __init__.py. What they do is recorded in tests/agent/contract.
"""

from __future__ import annotations

from gpuproof.agent.launch.context import LaunchContext

MASTER_PORT = 7777
"""Port at which the ranks meet on the first host."""

# SM_EFA_NCCL_INSTANCES and SM_EFA_RDMA_INSTANCES of the training toolkit.
EFA_TYPES = (
    *("ml.g4dn.8xlarge", "ml.g4dn.12xlarge", "ml.g5.48xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge"),
    *("ml.p4de.24xlarge", "ml.p5.48xlarge", "ml.p5e.48xlarge", "ml.trn1.32xlarge", "ml.p6e-gb200.36xlarge"),
)
EFA_RDMA_TYPES = (
    *("ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge", "ml.p5e.48xlarge", "ml.trn1.32xlarge"),
    "ml.p6e-gb200.36xlarge",
)

_OTHER_FRAMEWORKS = ("tensorflow", "keras")


def is_pytorch(context: LaunchContext) -> bool:
    """Whether the toolkit's variables for PyTorch apply: a training job that is not one of TensorFlow or Keras."""
    job = context.job
    return job.kind == "training" and (job.framework or "").lower() not in _OTHER_FRAMEWORKS


def pytorch_variables(context: LaunchContext) -> dict[str, str]:
    """Variables of a PyTorch training job, with and without a launcher.

    `RANK` and `WORLD_SIZE` are left to the launcher or the script: libraries take their presence for a launcher.
    """
    first = context.hosts[0]
    variables = {
        "MASTER_ADDR": context.address(first),
        "MASTER_PORT": str(context.port(MASTER_PORT, first)),
        "NCCL_IB_DISABLE": "1",
        "NCCL_DEBUG": "WARN",
    }
    if context.machine.torch is not None:
        variables["SM_DLC_TORCH_VERSION"] = context.machine.torch
    if context.interface is not None:
        variables["NCCL_SOCKET_IFNAME"] = context.interface
        if len(context.hosts) > 1:
            # The toolkit leaves it to gloo, which takes the address of the host's name: often one of loopback.
            variables["GLOO_SOCKET_IFNAME"] = context.interface
    return variables


def torchrun_variables(context: LaunchContext) -> dict[str, str]:
    """Variables that the toolkit adds for torchrun."""
    variables = {"NCCL_PROTO": "simple"}
    # SageMaker's own file: a job for such a type that runs on another machine has no EFA.
    instance_type = context.machine.resources.get("current_instance_type")
    if instance_type in EFA_TYPES:
        variables["FI_PROVIDER"] = "efa"
    if instance_type in EFA_RDMA_TYPES:
        variables.update(FI_EFA_USE_DEVICE_RDMA="1", RDMAV_FORK_SAFE="1")
    return variables
