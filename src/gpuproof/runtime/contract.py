"""The job's folders, hosts and hyperparameters, in GPUproof, on SageMaker, or outside any job.

Variables: https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_SAGEMAKER_BASE = Path("/opt/ml")
_TOOLKIT_PARAMETER = "_tuning_objective_metric"


class NoSuchChannel(LookupError):
    """The job has no input channel with that name."""


class Paths:
    """The job's folders, read from the environment at each access; outside a job they are in the current folder."""

    def __repr__(self) -> str:
        return f"<gpuproof.runtime.paths below {base_folder()}>"

    @property
    def model(self) -> Path:
        """Becomes `model.tar.gz`; created if missing."""
        return _ensure_folder(_path_variable("SM_MODEL_DIR") or base_folder() / "model")

    @property
    def output(self) -> Path:
        """Becomes `output.tar.gz`; created if missing."""
        return _ensure_folder(_path_variable("SM_OUTPUT_DATA_DIR") or _data_folder("output"))

    @property
    def checkpoints(self) -> Path:
        """Survives an interruption and is restored for the next attempt; created if missing."""
        return _ensure_folder(base_folder() / "checkpoints")

    @property
    def code(self) -> Path:
        """The folder of the script."""
        folder = _path_variable("SM_MODULE_DIR")
        # SageMaker's training toolkit sets an S3 URI.
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
            NoSuchChannel: the job has no channel with that name; the message lists the existing ones.
        """
        if os.environ.get(_channel_variable(name)):
            return self._channel(name)
        channels = self.channels
        if name in channels:
            return channels[name]
        known = f"it has {', '.join(channels)}" if channels else "it has none"
        raise NoSuchChannel(
            f"the job has no input channel '{name}': {known}. Add 'inputs: {{{name}: FOLDER}}' to gpuproof.yaml, "
            f"or set {_channel_variable(name)} to a folder."
        )

    def _channel(self, name: str) -> Path:
        return _path_variable(_channel_variable(name)) or _data_folder("input") / name


paths = Paths()
"""The job's folders: `paths.model`, `paths.channel("train")`, `paths.checkpoints` …"""


def hyperparameters() -> dict[str, Any]:
    """The job's hyperparameters, with parsed values: `5` is a number, `"adam"` text.

    From `hyperparameters.json`, decoded as in SageMaker's training toolkit, or else from `SM_HPS`; empty without either.
    """
    path = base_folder() / "input" / "config" / "hyperparameters.json"
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = _json_variable("SM_HPS")
        return dict(found) if isinstance(found, dict) else {}
    return {
        name: _decode(text)
        for name, text in texts.items()
        if not name.startswith("sagemaker_") and name != _TOOLKIT_PARAMETER
    }


def base_folder() -> Path:
    """`/opt/ml`, the folder that replaces it, or the current folder outside a job."""
    named = os.environ.get("SAGEMAKER_BASE_DIR")
    if named:
        return Path(named)
    return _SAGEMAKER_BASE if (_SAGEMAKER_BASE / "input" / "config").is_dir() else Path.cwd()


def hosts() -> tuple[str, ...]:
    """The job's hosts, in order; empty outside a job."""
    found = _json_variable("SM_HOSTS")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def host_index() -> int:
    """Index of this host among the job's hosts, from 0."""
    everyone = hosts()
    current = os.environ.get("SM_CURRENT_HOST", "")
    return everyone.index(current) if current in everyone else 0


def is_first_rank() -> bool:
    """Whether this process writes the files that all processes share: rank 0, the chief, or the first host."""
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
    return host_index() == 0


def tf_config() -> dict[str, Any]:
    """TensorFlow's description of the cluster (`TF_CONFIG`); empty if not set."""
    found = _json_variable("TF_CONFIG")
    return found if isinstance(found, dict) else {}


def gpu_is_optional() -> bool:
    """Whether the job sets `require_gpu: false`, or runs on an instance type without GPUs."""
    required = os.environ.get("GPUPROOF_REQUIRE_GPU")
    return required == "0" or (required is None and expected_gpus() == 0)


def expected_gpus() -> int | None:
    """Number of GPUs that the job requests; `None` if not set."""
    number = os.environ.get("GPUPROOF_EXPECTED_GPUS", "")
    return int(number) if number.isdigit() else None


def _data_folder(kind: str) -> Path:
    base = base_folder()
    return base / kind / "data" if base != Path.cwd() else base / kind


def _channel_variable(name: str) -> str:
    return f"SM_CHANNEL_{name.upper()}"


def _path_variable(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _json_variable(name: str) -> Any:
    try:
        return json.loads(os.environ.get(name, ""))
    except ValueError:
        return None


def _decode(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def _ensure_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
