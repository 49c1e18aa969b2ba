"""`trust_remote_code=True` runs Python code from the model's repository on the Hub with the job's role and data.

Anyone who can push to that repository can change the code from one start of the job to the next. A pinned `revision=`
guarantees that the reviewed code runs.

Bad:

    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("someone/model", trust_remote_code=True)  # <-

Bad: a branch is no revision

    from transformers import AutoModel

    AutoModel.from_pretrained("team/model", trust_remote_code=True, revision="main")  # <-

Good:

    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("someone/model", trust_remote_code=True, revision="8f1c2d3e4b5a")

Quiet: remote code is not trusted

    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("someone/model", trust_remote_code=False)

Quiet: a local folder

    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("/opt/ml/model", trust_remote_code=True)

Quiet: an argument of the script decides

    import argparse
    from transformers import AutoModelForCausalLM

    parser = argparse.ArgumentParser()
    parser.add_argument("--trust_remote_code", action="store_true")
    args = parser.parse_args()
    AutoModelForCausalLM.from_pretrained("someone/model", trust_remote_code=args.trust_remote_code)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SE107", "trust-remote-code", Severity.WARNING, needs=("trust_remote_code",))

_LOADS = ("from_pretrained", "load_dataset", "pipeline", "SentenceTransformer", "from_config")


_BRANCHES = ("main", "master", "", None)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for call in calls_named(module, *_LOADS):
        flag = call.argument("trust_remote_code")
        pinned = any(_pins(call.argument(name)) for name in ("revision", "code_revision"))
        if not flag.is_known or flag.flag is not True or pinned:
            continue
        name = call.argument("pretrained_model_name_or_path", 1 if call.method == "pipeline" else 0)
        if call.method == "pipeline" and name.is_absent:
            name = call.argument("model")
        # An unknown name may be a local folder.
        if (
            not name.is_sure
            or name.text is None
            or name.text.startswith(("/", ".", "~"))
            or "/" not in name.text
        ):
            continue
        yield rule.hit(
            call.span,
            f"trust_remote_code=True runs the code that `{name.text}` has on the Hub at the time the job starts.",
            remedy="Review the code and pin it with revision=<commit>.",
        )


def _pins(revision: Value) -> bool:
    """Whether a revision may be a commit or tag: a branch is whatever it points to."""
    return not revision.is_absent and not (revision.is_known and revision.value in _BRANCHES)
