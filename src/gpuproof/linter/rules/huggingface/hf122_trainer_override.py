"""A method of a Trainer is overridden without an argument that newer versions of transformers pass: TypeError.

Since 4.46, Trainer calls `compute_loss(model, inputs, num_items_in_batch=...)` and `training_step(model, inputs, num_items_in_batch)`, since 4.47
`log(logs, start_time)`. An override with the old parameters fails at the first step, or at the first log: "got an unexpected keyword argument". It
is a note if no version is known.

Bad:

    # file: requirements.txt
    transformers==4.49.0
    # file: train.py
    from torch import nn
    from transformers import Trainer

    class Weighted(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):  # <-
            outputs = model(**inputs)
            loss = nn.functional.cross_entropy(outputs.logits, inputs["labels"])
            return (loss, outputs) if return_outputs else loss

Good:

    # file: requirements.txt
    transformers==4.49.0
    # file: train.py
    from torch import nn
    from transformers import Trainer

    class Weighted(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            outputs = model(**inputs)
            loss = nn.functional.cross_entropy(outputs.logits, inputs["labels"])
            return (loss, outputs) if return_outputs else loss

Quiet: an older version

    # file: requirements.txt
    transformers==4.44.2
    # file: train.py
    from torch import nn
    from transformers import Trainer

    class Weighted(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):
            return model(**inputs).loss

Quiet: a Trainer of another library

    from training import Trainer

    class Weighted(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):
            return model(**inputs).loss
"""

from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.call_targets import methods
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.trainers.huggingface import trainer_class
from gpuproof.linter.knowledge.trainers.releases import is_at_least, unsure
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.util.csv_table import read_rows

rule = Rule("HF122", "trainer-override", Severity.ERROR, needs=("compute_loss", "training_step", "def log("))


@rule.module
def check(module: Module, project: Project) -> Hits:
    for owner in module.classes.values():
        if not any(trainer_class(module, base) is not None for base in owner.bases):
            continue
        for method in methods(owner):
            row = _passed().get(method.name)
            if row is None or method.decorator_list or _takes(method, row["argument"], row["how"]):
                continue
            is_new = is_at_least(module, project, "transformers", row["since"])
            if is_new == "no":
                continue
            version = row["since"].rpartition(".")[0]
            yield rule.hit(
                module.span(method),
                f"`{method.name}` of `{owner.name}` does not take `{row['argument']}`, which Trainer passes since transformers {version}: "
                "TypeError.",
                remedy=f"Add {row['argument']}=None, or **kwargs.",
                severity=rule.severity if is_new == "yes" else unsure(module, project, "transformers"),
            )


def _takes(method: FunctionNode, argument: str, how: str) -> bool:
    """Whether a method takes an argument, by keyword or by position."""
    own = method.args
    names = [parameter.arg for parameter in (*own.posonlyargs, *own.args)][1:]
    if how == "keyword":
        return own.kwarg is not None or argument in names or argument in [item.arg for item in own.kwonlyargs]
    return own.vararg is not None or len(names) > int(how.rpartition(" ")[2])


@cache
def _passed() -> dict[str, dict[str, str]]:
    path = Path(__file__).parents[2] / "data" / "trainer_overrides.csv"
    return {row["method"]: row for row in read_rows(path)}
