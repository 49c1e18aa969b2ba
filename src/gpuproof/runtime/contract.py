"""The job's folders, hosts and hyperparameters as the script finds them: in GPUproof, on SageMaker, or with neither.

Variables: https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_SAGEMAKER_BASE = Path("/opt/ml")
_TOOLKITS_OWN = "_tuning_objective_metric"


class NoSuchChannel(LookupError):
    """The job has no input channel of that name."""


class Paths:
    """The job's folders, read from the environment each time; outside of a job they lie in the current folder."""

    def __repr__(self) -> str:
        return f"<gpuproof.runtime.paths below {base_folder()}>"

    @property
    def model(self) -> Path:
        """What becomes `model.tar.gz`; made if it is not there."""
        return _made(_from("SM_MODEL_DIR") or base_folder() / "model")

    @property
    def output(self) -> Path:
        """What becomes `output.tar.gz`; made if it is not there."""
        return _made(_from("SM_OUTPUT_DATA_DIR") or _data_folder("output"))

    @property
    def checkpoints(self) -> Path:
        """What outlives an interruption and is there again at the next attempt; made if it is not there."""
        return _made(base_folder() / "checkpoints")

    @property
    def code(self) -> Path:
        """The folder of the script."""
        folder = _from("SM_MODULE_DIR")
        # SageMaker's own toolkit puts an address on S3 there.
        if folder is not None and folder.is_dir():
            return folder
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        return Path(script).resolve().parent if script else Path.cwd()

    @property
    def channels(self) -> dict[str, Path]:
        """The input channels by name."""
        names = _json_variable("SM_CHANNELS")
        if isinstance(names, list):
            return {str(name): self._channel(str(name)) for name in names}
        folder = _data_folder("input")
        return {path.name: path for path in sorted(folder.glob("*")) if path.is_dir()}

    def channel(self, name: str) -> Path:
        """The folder of one input channel.

        Raises:
            NoSuchChannel: the job has none of that name; the message lists those that it has.
        """
        if os.environ.get(_channel_variable(name)):
            return self._channel(name)
        there = self.channels
        if name in there:
            return there[name]
        known = f"it has {', '.join(there)}" if there else "it has none"
        raise NoSuchChannel(
            f"the job has no input channel '{name}': {known}. Add 'inputs: {{{name}: FOLDER}}' to gpuproof.yaml, "
            f"or set {_channel_variable(name)} to a folder."
        )

    def _channel(self, name: str) -> Path:
        return _from(_channel_variable(name)) or _data_folder("input") / name


paths = Paths()
"""The job's folders: `paths.model`, `paths.channel("train")`, `paths.checkpoints` …"""


def hyperparameters() -> dict[str, Any]:
    """The job's hyperparameters, each as the value that was meant: `5` is a number, `"adam"` text.

    From `hyperparameters.json`, decoded as SageMaker's training toolkit does; else from `SM_HPS`; else none.
    """
    path = base_folder() / "input" / "config" / "hyperparameters.json"
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = _json_variable("SM_HPS")
        return dict(found) if isinstance(found, dict) else {}
    return {
        name: _decoded(text)
        for name, text in texts.items()
        if not name.startswith("sagemaker_") and name != _TOOLKITS_OWN
    }


def base_folder() -> Path:
    """`/opt/ml`, the folder that stands for it, or the current folder where there is no job."""
    named = os.environ.get("SAGEMAKER_BASE_DIR")
    if named:
        return Path(named)
    return _SAGEMAKER_BASE if (_SAGEMAKER_BASE / "input" / "config").is_dir() else Path.cwd()


def hosts() -> tuple[str, ...]:
    """The job's hosts, in order; empty where there is no job."""
    found = _json_variable("SM_HOSTS")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def host_number() -> int:
    """This host's place among the job's hosts, from 0."""
    everyone = hosts()
    current = os.environ.get("SM_CURRENT_HOST", "")
    return everyone.index(current) if current in everyone else 0


def is_first_rank() -> bool:
    """Whether this process is the one that writes what all share: rank 0, the chief, the first host."""
    torch: Any = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch.get_rank() == 0
    task = tf_config().get("task")
    if task:
        chief = any(name in tf_config().get("cluster", {}) for name in ("chief", "master"))
        return task.get("type") in ("chief", "master") or (
            not chief and task.get("type") == "worker" and int(task.get("index", 0)) == 0
        )
    for variable in ("RANK", "OMPI_COMM_WORLD_RANK"):
        if os.environ.get(variable, "").isdigit():
            return os.environ[variable] == "0"
    return host_number() == 0


def tf_config() -> dict[str, Any]:
    """TensorFlow's own description of the cluster; empty where there is none."""
    found = _json_variable("TF_CONFIG")
    return found if isinstance(found, dict) else {}


def gpu_is_optional() -> bool:
    """Whether the job says `require_gpu: false`."""
    return os.environ.get("GPUPROOF_REQUIRE_GPU") == "0"


def expected_gpus() -> int | None:
    """How many GPUs the job asks for; `None` where it says nothing."""
    number = os.environ.get("GPUPROOF_EXPECTED_GPUS", "")
    return int(number) if number.isdigit() else None


def _data_folder(kind: str) -> Path:
    base = base_folder()
    return base / kind / "data" if base != Path.cwd() else base / kind


def _channel_variable(name: str) -> str:
    return f"SM_CHANNEL_{name.upper()}"


def _from(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _json_variable(name: str) -> Any:
    try:
        return json.loads(os.environ.get(name, ""))
    except ValueError:
        return None


def _decoded(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
