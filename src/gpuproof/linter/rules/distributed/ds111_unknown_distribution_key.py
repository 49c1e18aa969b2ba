"""The SDK silently ignores unknown keys of `distribution` and starts nothing.

Tested with SDK 2.257.7: `{"pytorchfsdp": ...}` becomes an empty configuration. The job runs with one process per
host, and the other GPUs are billed idle. FSDP, DDP and DeepSpeed are all started with `torch_distributed`.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.p4d.24xlarge",
        distribution={"pytorchfsdp": {"enabled": True}},  # <-
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.p4d.24xlarge",
        distribution={"torch_distributed": {"enabled": True}},
    )

Quiet: the mapping is defined elsewhere

    import json
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.p4d.24xlarge", distribution=json.load(open("distribution.json")),
    )

Quiet: options of a valid key

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="1.13", py_version="py39",
        instance_count=1, instance_type="ml.p4d.24xlarge",
        distribution={"smdistributed": {"modelparallel": {"enabled": True}}, "mpi": {"enabled": True}},
    )
"""

from difflib import get_close_matches
from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.csv_table import read_rows

rule = Rule("DS111", "unknown-distribution-key", Severity.ERROR)

_LIKELY = {"tensorflow": "multi_worker_mirrored_strategy"}


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source != "sagemaker-v2" or job.distribution.entries is None or not job.distribution.is_known:
        return
    parts = job.api.split(".")
    known = _keys().get((parts[1], parts[-1]), ()) if len(parts) > 2 else ()
    if not known:
        return
    for key, value in job.distribution.parts.items():
        if not isinstance(key, str) or key in known:
            continue
        close = get_close_matches(key, known, n=1, cutoff=0.75)
        better = (
            close[0]
            if close and close[0] != "pytorchddp"
            else _LIKELY.get(str(job.framework), "torch_distributed")
        )
        yield rule.hit(
            job.where(value, job.distribution),
            f'The SDK silently ignores the `distribution` key "{key}" and starts nothing.',
            remedy=f'Write {{"{better}": {{"enabled": True}}}}; valid keys of {parts[-1]}: {", ".join(known)}.',
        )


@cache
def _keys() -> dict[tuple[str, str], tuple[str, ...]]:
    """The valid keys of each SDK class, by package and class."""
    path = Path(__file__).parents[2] / "data" / "distribution.csv"
    return {
        (row["call"].split(".")[1], row["call"].split(".")[-1]): tuple(row["keys"].split())
        for row in read_rows(path)
    }
