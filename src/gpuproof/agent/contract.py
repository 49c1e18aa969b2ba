"""SageMaker's contract between host and script, in the form of its public training toolkit.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html,
https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md, and the output of toolkit
5.1.4 itself (recorded in tests/agent/contract).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import ContractPaths
from gpuproof.gpu.cuda_compat import DriverLibrary

PROCESSING_CODE = "processing/input/code"
"""Location of a processing job's source tree below `/opt/ml`, as with SageMaker's own processors."""

_INSTANCE_GROUP = "homogeneousCluster"
NETWORK_INTERFACE = "eth0"
_LOG_LEVEL = 20
_DISTRIBUTED = frozenset({"torchrun", "mpi", "parameter_server", "multi_worker_mirrored"})
"""Launchers that SageMaker's toolkit has too; it counts a job with one of them as distributed, also on one host."""
_FRAMEWORK_MODULES = {
    "tensorflow": "sagemaker_tensorflow_container.training:main",
    "keras": "sagemaker_tensorflow_container.training:main",
    "pytorch": "sagemaker_pytorch_container.training:main",
}


@dataclass(frozen=True)
class Machine:
    """What the contract states about the host.

    Args:
        resources: SageMaker's `resourceconfig.json`, if there is one; it takes precedence over the job.
        channels: SageMaker's `inputdataconfig.json`, if there is one.
        torch: the PyTorch version of the job's interpreter; `None` if it has none, or the job is no PyTorch job.
        driver: the driver library that the script's processes load; `None` if the agent does not decide that, as on the
            user's own machine, or without a driver.
    """

    cpus: int
    gpus: int
    resources: Mapping[str, Any] = field(default_factory=dict)
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    torch: str | None = None
    driver: DriverLibrary | None = None


def code_folder(job: AgentJob) -> str:
    """Location of the source tree below `/opt/ml`; the script starts in it.

    SageMaker's own processors put it below the inputs. If a job mounts a read-only input there, it is elsewhere.
    """
    if job.kind == "training":
        return "code"
    covered = any(PurePosixPath(PROCESSING_CODE).is_relative_to(mount.target) for mount in job.mounts)
    return "processing/code" if covered else PROCESSING_CODE


def framework_of(module: str | None) -> str | None:
    """The framework whose container has that module in `SAGEMAKER_TRAINING_MODULE`."""
    return next((name for name, known in _FRAMEWORK_MODULES.items() if known == module), None)


def lay_out(job: AgentJob, ml: Path) -> None:
    """Create the contract's folders and configuration files below the run's `ml` folder."""
    make_folders(job, ml)
    if job.kind == "processing":
        config = ml / "config"
        documents = {
            "processingjobconfig.json": processing_job_config(job),
            "resourceconfig.json": {"current_host": job.current_host, "hosts": sorted(job.hosts)},
        }
    else:
        config = ml / "input" / "config"
        documents = {
            "hyperparameters.json": hyperparameter_texts(job.hyperparameters),
            "inputdataconfig.json": input_data_config(job),
            "resourceconfig.json": resource_config(job),
        }
    config.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (config / name).write_text(json.dumps(document), encoding="utf-8")


def make_folders(job: AgentJob, ml: Path) -> None:
    """Create the contract's folders that do not exist yet."""
    if job.kind == "processing":
        folders = ["output", *(output.target for output in job.outputs)]
    else:
        folders = ["model", "input/data", "output/data", "checkpoints"]
    for folder in (*folders, code_folder(job)):
        (ml / folder).mkdir(parents=True, exist_ok=True)


def hyperparameter_texts(hyperparameters: Mapping[str, Any]) -> dict[str, str]:
    """`hyperparameters.json`: every value as text that the toolkit's `json.loads` converts back."""
    return {name: _as_text(value) for name, value in hyperparameters.items()}


def input_data_config(job: AgentJob) -> dict[str, dict[str, str]]:
    """`inputdataconfig.json`."""
    channel = {
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    return {name: dict(channel) for name in job.channels}


def resource_config(job: AgentJob) -> dict[str, Any]:
    """`resourceconfig.json`."""
    hosts = sorted(job.hosts)
    instance_type = job.instance_type or "local"
    return {
        "current_host": job.current_host,
        "current_instance_type": instance_type,
        "current_group_name": _INSTANCE_GROUP,
        "hosts": hosts,
        "instance_groups": [
            {"instance_group_name": _INSTANCE_GROUP, "instance_type": instance_type, "hosts": hosts}
        ],
        "network_interface_name": NETWORK_INTERFACE,
    }


def processing_job_config(job: AgentJob) -> dict[str, Any]:
    """`processingjobconfig.json`, in the format of `DescribeProcessingJob`, with this run's folders as locations."""
    return {
        "ProcessingJobName": job.run_id,
        "Environment": dict(job.environment),
        "AppSpecification": {
            "ContainerEntrypoint": ["python3", f"/opt/ml/{code_folder(job)}/{job.entry_point}"],
            "ContainerArguments": list(job.arguments),
        },
        "ProcessingInputs": [
            {"InputName": f"input-{number}", "LocalPath": f"/opt/ml/{mount.target}", "Source": mount.source}
            for number, mount in enumerate(job.mounts, 1)
        ],
        "ProcessingOutputConfig": {
            "Outputs": [
                {"OutputName": f"output-{number}", "LocalPath": f"/opt/ml/{output.target}"}
                for number, output in enumerate(job.outputs, 1)
            ]
        },
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": len(job.hosts), "InstanceType": job.instance_type or "local"}
        },
    }


def script_arguments(job: AgentJob) -> list[str]:
    """The script's command line: hyperparameters in the toolkit's order and form, then the job's arguments."""
    return [*hyperparameter_arguments(job.hyperparameters), *job.arguments]


def script_environment(job: AgentJob, paths: ContractPaths, machine: Machine) -> dict[str, str]:
    """The contract's environment variables for the script, without the job's own."""
    if job.kind == "processing":
        return {
            "PROCESSING_JOB_NAME": job.run_id,
            "SAGEMAKER_BASE_DIR": paths.base,
            "SM_CURRENT_HOST": job.current_host,
            "SM_HOSTS": _as_json(sorted(job.hosts)),
            "SM_NUM_CPUS": str(machine.cpus),
            "SM_NUM_GPUS": str(machine.gpus),
        }
    return {
        **{
            f"SM_{name.upper()}": _as_variable(value)
            for name, value in _settings(job, paths, machine).items()
        },
        "TRAINING_JOB_NAME": job.run_id,
        "SAGEMAKER_JOB_NAME": job.run_id,
        "SAGEMAKER_BASE_DIR": paths.base,
        "CURRENT_HOST": job.current_host,
    }


def _settings(job: AgentJob, paths: ContractPaths, machine: Machine) -> dict[str, Any]:
    hyperparameters = _script_hyperparameters(job.hyperparameters)
    resources = {**resource_config(job), **machine.resources}
    groups = {group["instance_group_name"]: group for group in resources["instance_groups"]}
    group = resources["current_group_name"]
    inputs = {
        name: {**default, **machine.channels.get(name, {})}
        for name, default in input_data_config(job).items()
    }
    channels = {name: paths.channel(name) for name in job.channels}
    common: dict[str, Any] = {
        "hosts": resources["hosts"],
        "network_interface_name": resources["network_interface_name"],
        "user_entry_point": job.entry_point,
        "resource_config": resources,
        "input_data_config": inputs,
        "output_data_dir": paths.output_data,
        "current_host": job.current_host,
        "current_instance_type": resources["current_instance_type"],
        "current_instance_group": group,
        "current_instance_group_hosts": groups.get(group, resources)["hosts"],
        "instance_groups": [*groups],
        "instance_groups_dict": groups,
        "distribution_instance_groups": [group] if job.launcher in _DISTRIBUTED else [],
        "is_hetero": False,
        "module_name": _module_name(job.entry_point),
        "log_level": job.hyperparameters.get("sagemaker_container_log_level", _LOG_LEVEL),
        "framework_module": _FRAMEWORK_MODULES.get((job.framework or "").lower()),
        "input_dir": paths.input,
        "input_config_dir": paths.input_config,
        "output_dir": paths.output,
        "num_cpus": machine.cpus,
        "num_gpus": machine.gpus,
        "num_neurons": 0,
        "model_dir": paths.model,
        "module_dir": job.hyperparameters.get(_SUBMIT_DIRECTORY, paths.code),
        "output_intermediate_dir": paths.output_intermediate,
    }
    training_env = {
        **common,
        "additional_framework_parameters": _framework_parameters(job),
        "channel_input_dirs": channels,
        "distribution_hosts": resources["hosts"] if job.launcher in _DISTRIBUTED else [],
        "hyperparameters": hyperparameters,
        "is_master": job.current_host == resources["hosts"][0],
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": job.run_id,
        "master_hostname": resources["hosts"][0],
        "topology": [],
    }
    return {
        **common,
        "hps": hyperparameters,
        "framework_params": _framework_parameters(job),
        "channels": sorted(channels),
        "training_env": training_env,
        "user_args": hyperparameter_arguments(job.hyperparameters),
        **{f"channel_{name}": path for name, path in channels.items()},
        **{f"hp_{name}": value for name, value in hyperparameters.items()},
    }


_SUBMIT_DIRECTORY = "sagemaker_submit_directory"
# The toolkit does not pass these on; any other `sagemaker_…` is a parameter of the framework's container.
_TOOLKITS_OWN = frozenset(
    {
        "sagemaker_program",
        _SUBMIT_DIRECTORY,
        "sagemaker_enable_cloudwatch_metrics",
        "sagemaker_region",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "default_user_module_name",
        "_tuning_objective_metric",
        "sagemaker_s3_output",
    }
)


def _script_hyperparameters(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in hyperparameters.items()
        if name not in _TOOLKITS_OWN and not name.startswith("sagemaker_")
    }


def _framework_parameters(job: AgentJob) -> dict[str, Any]:
    return {
        name: value
        for name, value in job.hyperparameters.items()
        if name.startswith("sagemaker_") and name not in _TOOLKITS_OWN
    }


def hyperparameter_arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """Hyperparameters as words of the script's command line, in the toolkit's order and form."""
    arguments: list[str] = []
    for name, value in sorted(_script_hyperparameters(hyperparameters).items()):
        arguments += [f"--{name}" if len(name) > 1 else f"-{name}", _as_argument(value)]
    return arguments


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    # Text that is valid JSON ("5", "true") is quoted, or the script would receive a number or a boolean.
    return json.dumps(value)


def _as_variable(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _as_json(value)


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _as_argument(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return str(value)


def _module_name(entry_point: str) -> str:
    path = PurePosixPath(entry_point)
    return str(path.with_suffix("")) if path.suffix == ".py" else entry_point
