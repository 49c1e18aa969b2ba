"""Version 3 of the SDK removed this module or name: the import fails.

Since November 2025 `pip install sagemaker` installs version 3. It has no `sagemaker.pytorch`, `sagemaker.tensorflow`,
`sagemaker.estimator` and no `sagemaker.Session`: estimators became `ModelTrainer`, models became `ModelBuilder`. If
the project pins version 3, every such import is an error; if it pins nothing, there is one note per project.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch  # <-
    # file: requirements.txt
    sagemaker>=3

Bad: the version is not pinned; one note per project

    from sagemaker.pytorch import PyTorch, PyTorchModel  # <-
    from sagemaker.processing import ScriptProcessor

Bad: names in the package itself

    # file: launch.py
    import sagemaker

    session = sagemaker.Session()  # <-
    role = sagemaker.get_execution_role()  # <-
    # file: requirements.txt
    sagemaker==3.2.0

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch
    # file: requirements.txt
    sagemaker>=2.200,<3

Good:

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.serve import ModelBuilder
    # file: requirements.txt
    sagemaker>=3

Quiet: a file that tries both

    try:
        from sagemaker.train import ModelTrainer
    except ImportError:
        from sagemaker.pytorch import PyTorch
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import v2, v3, v3_replacement
from gpuproof.linter.sdk.calls import V3_FOLDERS, sdk_major
from gpuproof.linter.sdk.names import UsedName, used_names

rule = Rule("SDK201", "v2-import", Severity.ERROR, needs=("sagemaker",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("sagemaker"):
        return
    major = sdk_major(module, project)
    if major not in (None, 3):
        return
    removed = [name for name in used_names(module) if _is_removed(name)]
    if major == 3:
        for name in removed:
            yield rule.hit(
                module.span(name.node),
                f"`{name.path}` was removed in sagemaker v3.",
                remedy=_remedy(name.path),
            )
    elif removed and not module.imports(*V3_FOLDERS):
        yield rule.hit(
            module.span(removed[0].node),
            f"`{removed[0].path}` only exists in sagemaker v2, but the version is not pinned: "
            "`pip install sagemaker` installs v3 since November 2025.",
            remedy=f'Pin "sagemaker<3", or migrate: {_remedy(removed[0].path)}',
            severity=Severity.NOTE,
            per_project=True,
        )


def _is_removed(name: UsedName) -> bool:
    return not name.guarded and v2().has(name.path) is True and v3().has(name.path) is False


def _remedy(path: str) -> str:
    statement = v3_replacement(path)
    if not statement:
        return "v3 has no successor; define the job with sagemaker.core or boto3."
    return f"{statement[0].upper()}{statement[1:]}." if statement.startswith("import") else f"`{statement}`."
