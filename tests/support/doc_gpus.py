"""GPUs for the pages of the documentation: each works while a Python script runs that has its number as local rank."""

from __future__ import annotations

from pathlib import Path

from support.nvml_stub import Scenario

_REGISTERS = """\
import os, sys
words = [word for word in sys.orig_argv[1:] if not word.startswith("-")]
if words and words[0].endswith(".py"):
    name = os.path.join({folder!r}, "pid-" + os.environ.get("LOCAL_RANK", "0"))
    with open({of_host!r} if "TRAINING_JOB_ARN" in os.environ else name, "w") as file:
        file.write(str(os.getpid()))
"""
"""A `sitecustomize` that names a script's process as one that uses a GPU."""
_OF_HOST = "/opt/ml/process-on-gpu"
"""Where a training job of SageMaker does: each of its hosts has a GPU and an `/opt/ml` of its own."""


def gpus_at_work(folder: Path, library: Path, count: int, *, in_container: bool) -> dict[str, str]:
    """Variables with which programs see so many GPUs of the stub NVML.

    Args:
        folder: for their state.
        library: the folder with the stub.
        in_container: whether NVML lists no processes.
    """
    site = folder / "site"
    site.mkdir(parents=True)
    (site / "sitecustomize.py").write_text(_REGISTERS.format(folder=str(folder), of_host=_OF_HOST))
    scenario = Scenario(folder / "gpus.txt").gpus(count)
    for number in range(count):
        scenario.at(0, number).when_registered(folder / f"pid-{number}", number, visible=not in_container)
    if in_container:
        scenario.when_registered(Path(_OF_HOST), visible=False)
    scenario.now(1)
    return {**scenario.environment(library), "PYTHONPATH": str(site)}
