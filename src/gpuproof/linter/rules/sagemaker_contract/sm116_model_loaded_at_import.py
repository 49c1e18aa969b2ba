"""The model is loaded when the inference script is imported and again in `model_fn`: two copies per worker.

The toolkit imports the script in every worker and then calls `model_fn`. Objects loaded at the top level of the
script stay in memory, or on the GPU, as long as the worker lives, although only the result of `model_fn` is used.
Startup takes twice as long, and a model that fits on a GPU once may not fit twice.

Bad:

    import torch

    device = torch.device("cuda")
    model = torch.jit.load("/opt/ml/model/model.pt")  # <-
    model.to(device)

    def model_fn(model_dir):
        model = torch.jit.load(model_dir + "/model.pt")
        return model.to(device)

    def predict_fn(data, model):
        return model(data)

Bad: created twice

    import torch
    from network import Network

    model = Network()  # <-
    model.to("cuda")

    def model_fn(model_dir):
        model = Network()
        model.load_state_dict(torch.load(model_dir + "/model.pt"))
        return model

Good:

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt").to("cuda")

    def predict_fn(data, model):
        with torch.inference_mode():
            return model(data)

Quiet: a global that model_fn fills, and a small tokenizer

    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    model = None

    def model_fn(model_dir):
        global model
        model = torch.jit.load(model_dir + "/model.pt")
        return model

Quiet: model_fn returns the loaded model

    import torch

    model = torch.jit.load("/opt/ml/model/model.pt")

    def model_fn(model_dir):
        return model

    if __name__ == "__main__":
        model = torch.jit.load("model.pt")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler, loads_model
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM116", "model-loaded-at-import", Severity.WARNING, needs=("model_fn",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    function = module.functions.get("model_fn")
    if function is None or not is_handler(module) or module.unit.kind == "notebook":
        return
    again = _returned_names(module, function)
    if not again:
        return
    for statement in module.tree.root.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if not isinstance(target, ast.Name) or not _is_model(module, statement, target.id):
            continue
        if target.id not in again and not _loads(module, statement):
            continue
        # An object that model_fn (or another function) reads is shared, not a second copy.
        if _is_read_by_functions(module, target.id):
            continue
        yield rule.hit(
            module.span(statement),
            f"`{target.id}` is loaded when this file is imported, and again in `model_fn`: each worker has two copies.",
            remedy="Load it only in model_fn; predict_fn receives it as an argument.",
        )
        return


def _is_model(module: Module, statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    """Whether a top-level assignment creates a model: it loads one, or its value is moved to a device later."""
    if _loads(module, statement):
        return True
    if isinstance(statement.value, ast.Constant) and statement.value.value is not Ellipsis:
        return False
    return any(
        isinstance(call.receiver, ast.Name)
        and call.receiver.id == name
        and module.parent(call.node) in module.tree.root.body
        for call in calls_named(module, "to", "cuda", "eval")
    )


def _loads(module: Module, statement: ast.stmt) -> bool:
    return any(loads_model(call) for call in calls_within(all_calls(module), statement))


def _returned_names(module: Module, function: FunctionNode) -> set[str]:
    """Local names that `model_fn` returns; empty if it uses a `global` statement."""
    if any(isinstance(node, ast.Global) for node in ast.walk(function)):
        return set()
    bound = set(module.names.bindings(function))
    loads = [call for call in calls_within(all_calls(module), function) if loads_model(call)]
    returned = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name) and node.value.id in bound
    }
    return returned or ({""} if loads else set())


def _is_read_by_functions(module: Module, name: str) -> bool:
    for node in module.nodes(ast.Name):
        if node.id != name or not isinstance(node.ctx, ast.Load) or module.function_of(node) is None:
            continue
        if any(binding.scope is module.tree.root for binding in module.reaching(node)):
            return True
    return False
