"""Remedies that several findings share."""

RESET_GPU = "Reboot the machine (or run `nvidia-smi --gpu-reset -i {index}` while no process uses the GPU)."
"""Takes `index`, the GPU's number in NVML's order."""

MOVE_TO_OTHER_HARDWARE = (
    "stop the instance and start it again, which moves it to other hardware (a reboot does not); "
    "on SageMaker start the job again. Contact AWS Support if it comes back."
)
"""Ends a sentence such as `If it comes back, ...`."""
