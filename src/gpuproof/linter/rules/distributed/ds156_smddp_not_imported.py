"""The script uses the backend `smddp` and never imports the module that registers it: the job fails at start-up.

SageMaker's data parallel library adds its backend to PyTorch when it is imported: `import
smdistributed.dataparallel.torch.torch_smddp`. Without the import, `init_process_group("smddp")` raises "Invalid backend: 'smddp'".
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/data-parallel-modify-sdp-pt.html.

Bad:

    import torch.distributed as dist

    dist.init_process_group(backend="smddp")  # <-

Good:

    import smdistributed.dataparallel.torch.torch_smddp
    import torch.distributed as dist

    dist.init_process_group(backend="smddp")

Quiet: the backend is an argument

    import argparse
    import torch.distributed as dist

    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="smddp")
    args = parser.parse_args()
    if args.backend == "smddp":
        import smdistributed.dataparallel.torch.torch_smddp
    dist.init_process_group(backend=args.backend)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import insert_line
from gpuproof.linter.knowledge.distribution.entries import scripts_with
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("DS156", "smddp-not-imported", Severity.ERROR, needs=("smddp",))

_IMPORT = "import smdistributed.dataparallel.torch.torch_smddp"
_CONNECTING = frozenset({"lightning", "pytorch_lightning", "accelerate", "importlib", "*"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in process_group_inits(module):
        backend = call.argument("backend", 0)
        if not backend.is_sure or backend.text != "smddp":
            continue
        scripts = scripts_with(module)
        if any(home.imports("smdistributed") for script in scripts for home in local_modules(script)):
            return
        if any(_CONNECTING & set(unseen_imports(script)) for script in scripts):
            return
        yield rule.hit(
            call.span,
            "The backend smddp is registered by an import that the script does not have: \"Invalid backend: 'smddp'\".",
            remedy=f"Add {_IMPORT}.",
            fix=Fix(f"Add {_IMPORT}", (insert_line(module, module.tree.root.body[0], _IMPORT),))
            if module.tree.root.body
            else None,
        )
        return
