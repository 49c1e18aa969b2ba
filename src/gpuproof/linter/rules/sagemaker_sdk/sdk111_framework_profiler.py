"""Framework profiling does not collect anything since TensorFlow 2.12 and PyTorch 2.0.

The SDK only prints a warning; the job pays for a profiler whose charts stay empty. System metrics (GPU utilization,
memory) do not need a `FrameworkProfile`.

Bad:

    from sagemaker.debugger import FrameworkProfile, ProfilerConfig
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.1", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
        profiler_config=ProfilerConfig(
            system_monitor_interval_millis=500,
            framework_profile_params=FrameworkProfile(),  # <-
        ),
    )

Fixed:

    from sagemaker.debugger import FrameworkProfile, ProfilerConfig
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.1", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
        profiler_config=ProfilerConfig(
            system_monitor_interval_millis=500,
        ),
    )

Good:

    from sagemaker.debugger import FrameworkProfile, ProfilerConfig
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=1, instance_type="ml.g5.xlarge",
        profiler_config=ProfilerConfig(framework_profile_params=FrameworkProfile()),
    )

Quiet: system metrics are collected with every version

    from sagemaker.debugger import ProfilerConfig
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
        profiler_config=ProfilerConfig(system_monitor_interval_millis=500),
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.fixing.edits import remove_keyword
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk.calls import major_minor
from gpuproof.linter.source.edit import Fix

rule = Rule("SDK111", "framework-profiler", Severity.WARNING)

_ENDED = {"pytorch": (2, 0), "tensorflow": (2, 12)}
"""First releases without framework profiling: `profiler_config_deprecation_warning` of sagemaker 2.257.7."""


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    ended = _ENDED.get(job.framework or "")
    version = major_minor(job.framework_version.text)
    if ended is None or version is None or version < ended or job.call is None:
        return
    config = _made(job.call, "profiler_config", "ProfilerConfig")
    profile = _made(config, "framework_profile_params", "FrameworkProfile") if config else None
    if config is None or profile is None:
        return
    edit = remove_keyword(config, "framework_profile_params")
    name = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}[job.framework or ""]
    yield rule.hit(
        profile.span,
        f"Framework profiling ended with {name} {ended[0]}.{ended[1]}; this job runs {job.framework_version.text}: "
        "no framework metrics are collected.",
        remedy="Remove framework_profile_params; use the framework's own profiler in the script.",
        fix=Fix("Remove framework_profile_params=", (edit,), safe=True) if edit else None,
    )


def _made(call: Call, keyword: str, name: str) -> Call | None:
    node = call.expression(keyword)
    origin = origin_call(call.module, node) if node is not None else None
    return origin if origin is not None and origin.name is not None and origin.method == name else None
