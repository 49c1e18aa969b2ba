"""Evaluation with autograd enabled keeps every layer's activations for a backward pass that never happens.

This takes several times the GPU memory and some time; a validation batch that fits under `torch.inference_mode()` may
not fit without it. `model.eval()` does not disable autograd. The rule checks functions that put a model into
evaluation mode, or that a serving toolkit calls, and that run the model; in code that also trains, the loop between
`model.eval()` and the next `model.train()`.

Bad:

    import torch
    from torch.utils.data import DataLoader

    def test(model, loader):
        model.eval()
        hits = 0
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()  # <-
        return hits

Bad: an inference handler

    import torch

    def model_fn(model_dir):
        return torch.jit.load(model_dir + "/model.pt").eval()

    def predict_fn(data, model):
        return model(data)  # <-

Bad: in the training loop itself

    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        model.train()
        for x, y in DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        hits = 0
        for x, y in DataLoader([]):
            hits += (model(x).argmax(1) == y).sum().item()  # <-

Bad: scores that become numbers, in a class of its own

    import torch

    class Scorer:
        def __init__(self, weights):
            self.model = torch.nn.Linear(4, 2).cuda()
            self.model.load_state_dict(torch.load(weights))

        def run(self, batches):
            hits = 0
            for x, y in batches:
                scores = self.model(x.cuda())  # <-
                hits += (scores.argmax(1) == y.cuda()).sum().item()
            return hits

Bad: the top level puts the model into evaluation mode

    import torch
    from data import loader

    device = torch.device("cuda")
    encoder = torch.load("checkpoint.pt", weights_only=False)["encoder"].to(device)
    encoder.eval()

    def evaluate():
        scores = []
        for images, labels in loader:
            features = encoder(images.to(device))  # <-
            scores.append(features.argmax(1).cpu())
        return scores

    evaluate()

Good:

    import torch

    def test(model, loader):
        model.eval()
        hits = 0
        with torch.inference_mode():
            for x, y in loader:
                hits += (model(x).argmax(1) == y).sum().item()
        return hits

Quiet: a loop that shows the first batch only

    import torch
    from data import loader

    embedding = torch.nn.Embedding(50257, 256)
    for tokens, labels in loader:
        embedded = embedding(tokens)
        print(embedded.shape)
        break

Quiet: a model that is compiled for another accelerator

    import torch
    import torch_neuronx
    from data import loader

    model = torch.nn.Linear(8, 2)
    model.eval()
    model = torch_neuronx.trace(model, torch.rand(1, 8))
    for batch, labels in loader:
        print(model(batch).argmax(1))

Quiet: the caller disables autograd

    import torch
    from data import loader

    device = torch.device("cuda")
    encoder = torch.load("checkpoint.pt", weights_only=False)["encoder"].to(device)
    encoder.eval()

    def encode(images):
        return encoder(images.to(device)).cpu()

    with torch.inference_mode():
        features = [encode(images) for images, labels in loader]

Quiet: the caller disables it

    import torch

    def test(model, loader):
        model.eval()
        return [model(x) for x, y in loader]

    with torch.no_grad():
        test(torch.nn.Linear(1, 1), [])

Quiet: generate() runs without gradients

    import torch

    def predict_fn(data, model):
        model.eval()
        return model.generate(data)

Quiet: the object that the toolkit passes disables it

    import torch

    class Embedder:
        def __init__(self, folder):
            self.net = torch.jit.load(folder + "/model.pt").eval()

        @torch.inference_mode()
        def __call__(self, images):
            return self.net(images)

    def model_fn(model_dir):
        return Embedder(model_dir)

    def predict_fn(images, embedder):
        return embedder(images)

Quiet: evaluation mode is set in another branch

    import torch

    def export(model, x, form):
        if form == "graph":
            return model(x)
        elif form == "trace":
            model.eval()
            return torch.jit.trace(model, x)

Bad: autograd is disabled in another branch only

    import torch

    def predict(model, x, fast):
        model.eval()
        if fast:
            with torch.inference_mode():
                return model(x)
        return model(x)  # <-

Quiet: gradients of the input are needed

    import torch

    def attack(model, x, y):
        model.eval()
        x.requires_grad = True
        model(x).sum().backward()
        return x.grad.sign()

Quiet: one run at the top level, as in a notebook

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    scores = model(torch.ones(1, 4).cuda())
    print(scores.argmax(-1).item())
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.branches import are_exclusive
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.flow.call_targets import Definition, returned_values
from gpuproof.linter.analysis.flow.called import called_functions
from gpuproof.linter.analysis.flow.repeats import is_repeated
from gpuproof.linter.analysis.flow.sources import class_of
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.types.libraries import is_module_class
from gpuproof.linter.analysis.usage import find_matches, reached, uses
from gpuproof.linter.knowledge.contract.inference_handlers import is_handler
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_inside_with, is_test
from gpuproof.linter.knowledge.training.gradients import is_off
from gpuproof.linter.knowledge.training.scoring import scoring_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("PF104", "no-grad-missing", Severity.WARNING, needs=("torch",))

_SWITCHES = re.compile(
    r"(^|\.)(no_grad|inference_mode|set_grad_enabled|enable_grad|backward|requires_grad_|step|train_step|register_\w*hook)$"
    r"|^torch\.(autograd|func)\.|^captum\."
)
"""Calls of a function that disables autograd, or needs it."""
_TRAINS = re.compile(r"(^|\.)(backward|step)$")
_OFF = ("no_grad", "inference_mode", "set_grad_enabled")
_GRADIENTS = re.compile(r"^(grad|requires_grad)$")
_LOADS = re.compile(r"^torch\.(jit\.)?load$|(^|\.)(load_state_dict|eval)$")
_WITHOUT = re.compile(r"^(diffusers|sentence_transformers)\.|(^|\.)pipeline$")
"""Models that disable autograd themselves."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or imports_device_manager(module) or is_test(module):
        return
    if _is_off(module) or module.imports("torch_neuron", "torch_neuronx", "torch_xla"):
        return
    handler = is_handler(module)
    found: set[ast.AST] = set()
    for function in module.nodes(ast.FunctionDef):
        runs = _runs_model(module, function, handler)
        run = next(
            (call for call in runs if not _switches(module, function, call) and not _is_off_inside(call)),
            None,
        )
        if run is None or _is_called_without(module, function):
            continue
        found.add(run.node)
        yield _hit(module, run, f" in `{function.name}`")
    for run in _evaluation_loops(module):
        if run.node not in found:
            found.add(run.node)
            yield _hit(module, run, "")
    around = {module.function_of(node) for node in found} - {None}
    for run in scoring_runs(module):
        function = module.function_of(run.node)
        if run.node not in found and function not in around and not is_off(module, run.node):
            around.add(function)
            yield _hit(module, run, f" in `{function.name}`" if function is not None else "")
    if not found:
        yield from (_hit(module, run, "") for run in _evaluated_elsewhere(module))


def _evaluated_elsewhere(module: Module) -> Iterator[Call]:
    """The first run, in a loop, of a model that the top level puts into evaluation mode, where nothing needs gradients."""
    needed = (
        *find_matches(module, _SWITCHES, "call", "name"),
        *find_matches(module, _GRADIENTS, "attribute", "keyword"),
    )
    if any(module.function_of(use.node) is None for use in needed):
        return
    models = {
        module.text(call.receiver)
        for call in calls_named(module, "eval")
        if call.receiver is not None
        and module.function_of(call.node) is None
        and not (call.node.args or call.node.keywords)
    }
    for run in all_calls(module) if models else ():
        if module.text(run.node.func) not in models or not (run.node.args or run.node.keywords):
            continue
        if not is_repeated(module, run.node) or is_off(module, run.node) or _is_off_inside(run):
            continue
        if not any(_switches(*place) for place in _places(module, run)):
            yield run
            return


def _places(module: Module, run: Call) -> Iterator[tuple[Module, FunctionNode, Call]]:
    """The function that runs a model, and those that call it, each with the call."""
    function = module.function_of(run.node)
    if function is None:
        return
    yield module, function, run
    for site in known_call_sites(module, function):
        caller = site.module.function_of(site.call)
        if caller is not None:
            yield site.module, caller, Call(site.call, site.module)


def _hit(module: Module, run: Call, where: str) -> Hit:
    return rule.hit(
        run.span,
        f"`{module.excerpt(run.node, 50)}`{where} runs with autograd enabled: activations stay in GPU memory for a backward "
        "pass that never happens.",
        remedy="Put it under `with torch.inference_mode():`.",
    )


def _evaluation_loops(module: Module) -> Iterator[Call]:
    """Runs of a model in loops between its `eval()` and its next `train()`, in the same block of code that also trains."""
    for call in calls_named(module, "eval"):
        statement = module.parent(call.node)
        block = _block(module, statement) if isinstance(statement, ast.Expr) else None
        function = module.function_of(call.node)
        if (
            block is None
            or call.receiver is None
            or (function is not None and _is_called_without(module, function))
        ):
            continue
        # A function of its own is checked as a whole.
        if function is not None and not uses(module, _TRAINS, "call", within=function):
            continue
        if is_inside_with(module, call.node, _OFF):
            continue
        model = module.text(call.receiver)
        for following in block[block.index(statement) + 1 :]:  # pyright: ignore[reportArgumentType]
            if any(
                module.text(other.node.func) == f"{model}.train"
                for other in calls_within(all_calls(module), following)
            ):
                break
            if not isinstance(following, ast.For) or _needs_gradients(module, following):
                continue
            runs = [
                run
                for run in calls_within(all_calls(module), following)
                if module.text(run.node.func) == model
            ]
            if runs and not is_inside_with(module, runs[0].node, _OFF):
                yield runs[0]
                break


def _block(module: Module, statement: ast.AST) -> list[ast.stmt] | None:
    """The statements of the block that contains a statement."""
    parent = module.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block  # pyright: ignore[reportUnknownVariableType]
    return None


def _needs_gradients(module: Module, loop: ast.For) -> bool:
    return uses(module, _SWITCHES, "call", "name", within=loop) or any(
        not _is_off_here(module, use.node)
        for use in find_matches(module, _GRADIENTS, "attribute", "keyword", within=loop)
    )


def _is_off_here(module: Module, node: ast.AST) -> bool:
    """Whether `requires_grad=False` is passed or assigned, which needs no gradient."""
    value = node.value if isinstance(node, ast.keyword) else None
    statement = module.parent(node)
    if isinstance(statement, ast.Assign) and node in statement.targets:
        value = statement.value
    return value is not None and evaluate(module, value).flag is False


def _is_off(module: Module) -> bool:
    """Whether the file disables autograd for the whole process, with a statement at its top level."""
    return any(
        call.argument("mode", 0).flag is False
        and module.parent(module.parent(call.node) or call.node) is module.tree.root
        for call in calls_named(module, "set_grad_enabled")
        if isinstance(module.parent(call.node), ast.Expr)
    )


def _switches(module: Module, function: FunctionNode, run: Call) -> bool:
    """Whether the function disables autograd, needs gradients, or is a generator, whose caller may do either."""
    found = [
        *find_matches(module, _SWITCHES, "call", "name", within=function),
        *(
            use
            for use in find_matches(module, _GRADIENTS, "attribute", "keyword", within=function)
            if not _is_off_here(module, use.node)
        ),
    ]
    return any(not are_exclusive(module, use.node, run.node) for use in found) or any(
        module.function_of(node) is function for node in module.nodes(ast.Yield, ast.YieldFrom)
    )


def _is_off_inside(run: Call) -> bool:
    """Whether what the call runs, a method or function of the project, disables autograd itself."""
    return any(
        uses(definition.module, _SWITCHES, "call", "name", within=definition.node)
        for definition in called_functions(run.module, run.node)
    )


def _runs_model(module: Module, function: FunctionNode, handler: bool) -> Iterator[Call]:
    """The calls of a model that the function put into evaluation mode or received from a toolkit."""
    evaluated: list[tuple[str, ast.AST]] = [
        (module.text(call.receiver), call.node)
        for call in calls_named(module, "eval")
        if call.receiver is not None and module.function_of(call.node) is function
    ]
    if handler and _is_served_module(module, function) and function.name in ("predict_fn", "transform_fn"):
        names = [argument.arg for argument in function.args.args]
        index = 1 if function.name == "predict_fn" else 0
        served = names[index] if index < len(names) else ""
        if _loads_module(module):
            evaluated.append((served, function))
    if not evaluated:
        return
    for call in calls_within(all_calls(module), function):
        if module.function_of(call.node) is not function:
            continue
        written = module.text(call.node.func)
        if any(name == written and not are_exclusive(module, node, call.node) for name, node in evaluated):
            yield call


def _is_served_module(module: Module, function: FunctionNode) -> bool:
    """Whether what a handler's function gets is no object of the project's own, which may disable autograd itself."""
    names = function.args.args
    index = 1 if function.name == "predict_fn" else 0
    load = module.functions.get("model_fn")
    if index >= len(names) or load is None:
        return True
    owners = [class_of(module, value) for value in returned_values(Definition(module, load))]
    return all(
        owner is None or (isinstance(owner.node, ast.ClassDef) and is_module_class(owner.module, owner.node))
        for owner in owners
    )


def _loads_module(module: Module) -> bool:
    """Whether the handler's model is certainly a `torch.nn.Module` and not a pipeline that disables autograd itself."""
    load = module.functions.get("model_fn")
    if load is None:
        return False
    code = reached(module, load)
    return uses(module, _LOADS, "call", within=code) and not uses(
        module, _WITHOUT, "call", "name", within=code
    )


def _is_called_without(module: Module, function: FunctionNode) -> bool:
    """Whether the function is decorated, or called where autograd is disabled."""
    if function.decorator_list:
        return True
    for other in local_modules(module):
        for call in calls_named(other, function.name):
            if is_inside_with(other, call.node, ("no_grad", "inference_mode", "set_grad_enabled")):
                return True
            around = other.function_of(call.node)
            if (
                around is not None
                and around is not function
                and uses(other, _SWITCHES, "call", "name", within=around.decorator_list)
            ):
                return True
    return False
