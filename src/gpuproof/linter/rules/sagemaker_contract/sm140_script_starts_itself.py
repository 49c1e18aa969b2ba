"""The entry point is the file that starts the job, so that the job starts another job, which starts the next.

The container runs the whole file as `__main__`, with the estimator and its `fit()`. Where the container has no SageMaker SDK, the
job fails at the import; where it has one and the job's role may create jobs, each job pays for another one. A file that ends
before that line, or decides whether it is in the container (`if "SM_MODEL_DIR" in os.environ`), is not reported.

Bad:

    # file: train.py
    import os
    import torch
    from sagemaker.pytorch import PyTorch

    if __name__ == "__main__":
        model = torch.nn.Linear(8, 1)
        torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

    estimator = PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge")  # <-
    estimator.fit()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py",
        framework_version="2.8",
        py_version="py312",
        role="r",
        instance_count=1,
        instance_type="ml.g5.xlarge",
    )
    estimator.fit()
    # file: train.py
    import os
    import torch

    model = torch.nn.Linear(8, 1)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Quiet: the script knows where it runs

    # file: train.py
    import os
    import torch
    from sagemaker.pytorch import PyTorch

    if "SM_MODEL_DIR" in os.environ:
        torch.save(torch.nn.Linear(8, 1).state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
    else:
        PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()

Quiet: it ends before

    # file: train.py
    import os
    import sys
    import torch
    from sagemaker.pytorch import PyTorch

    if "SM_MODEL_DIR" in os.environ:
        torch.save(torch.nn.Linear(8, 1).state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
        sys.exit()
    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.strategies import is_conditional
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM140", "script-starts-itself", Severity.ERROR)

_ENDS = frozenset({"sys.exit", "exit", "quit", "os._exit"})


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    module, call = job.module, job.call
    if module is None or call is None or job.script is not module or job.entry_point.text is None:
        return
    node = call.node
    if module.function_of(node) is not None or is_conditional(module, node) or _may_end(module):
        return
    yield rule.hit(
        job.where(job.entry_point),
        f"`{job.entry_point.text}` is this file: the job runs this line, too, and starts the next job.",
        remedy="Keep the training script and the file that starts the job apart.",
    )


def _may_end(module: Module) -> bool:
    """Whether the file ends its process on purpose, perhaps before it starts the job."""
    return bool(module.nodes(ast.Raise)) or any((call.name or "") in _ENDS for call in all_calls(module))
