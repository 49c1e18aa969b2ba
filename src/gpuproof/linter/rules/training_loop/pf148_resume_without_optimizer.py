"""Training resumes from a checkpoint without the optimizer's state that is in it.

The checkpoint has the model, the epoch and the state of the optimizer; only the model and the epoch are read back. Adam's moments and momentum
start at zero, so that the first steps after each interruption undo progress. On Spot instances this happens at every interruption.

Bad:

    import torch

    def save(model, optimizer, epoch, path):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)

    def resume(model, path):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])  # <-
        return checkpoint["epoch"] + 1

Good:

    import torch

    def save(model, optimizer, epoch, path):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)

    def resume(model, optimizer, path):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        return checkpoint["epoch"] + 1

Quiet: loaded for inference, or all entries are read

    import torch

    def save(model, optimizer, epoch, path):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)

    def load(model, path):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        return model.eval()
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF148", "resume-without-optimizer", Severity.WARNING, needs=("load_state_dict",))

_PROGRESS = frozenset({"epoch", "step", "global_step", "iteration", "iter", "epochs", "start_epoch", "steps"})
_OPTIMIZER = re.compile(r"opt", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    loads = [call for call in calls_named(module, "load_state_dict") if _key(module, call) is not None]
    if not loads:
        return
    modules = program_modules(module)
    saved = {key: constant for each in modules for key, constant in _optimizer_keys(each)}
    if not saved or any(
        node.value in saved and node is not saved[node.value]
        for each in modules
        for node in each.nodes(ast.Constant)
        if isinstance(node.value, str)
    ):
        return
    for call in loads:
        checkpoint = _key(module, call)
        if checkpoint is None or not _reads_progress(module, checkpoint) or _is_passed_on(module, checkpoint):
            continue
        key = next(iter(saved))
        yield rule.hit(
            call.span,
            f"Training resumes without the state of the optimizer: `{module.text(checkpoint)}[{key!r}]` is saved and never read.",
            remedy=f"Call optimizer.load_state_dict({module.text(checkpoint)}[{key!r}]) as well.",
        )
        return


def _key(module: Module, call: Call) -> ast.Name | None:
    """The checkpoint of `model.load_state_dict(checkpoint["model"])`, if `torch.load` has read it."""
    match call.node.args:
        case [ast.Subscript(value=ast.Name() as checkpoint, slice=ast.Constant(value=str())), *_]:
            made = origin_call(module, checkpoint)
            return checkpoint if made is not None and made.name == "torch.load" else None
        case _:
            return None


def _optimizer_keys(module: Module) -> Iterator[tuple[str, ast.Constant]]:
    """The keys under which `torch.save` keeps the state of an optimizer."""
    for call in calls_to(module, "torch.save"):
        state = module.origin(call.expression("obj", 0))
        if not isinstance(state, ast.Dict):
            continue
        for key, value in zip(state.keys, state.values, strict=True):
            match value:
                case ast.Call(func=ast.Attribute(value=owner, attr="state_dict")) if (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, str)
                    and _OPTIMIZER.search(module.text(owner))
                ):
                    yield key.value, key
                case _:
                    pass


def _reads_progress(module: Module, checkpoint: ast.Name) -> bool:
    """Whether code reads from the checkpoint where training stopped."""
    bindings = module.reaching(checkpoint)
    for node in module.nodes(ast.Subscript):
        if (
            isinstance(node.value, ast.Name)
            and node.value.id == checkpoint.id
            and isinstance(node.slice, ast.Constant)
            and node.slice.value in _PROGRESS
            and module.reaching(node.value) == bindings
        ):
            return True
    return False


def _is_passed_on(module: Module, checkpoint: ast.Name) -> bool:
    """Whether other code gets the whole checkpoint."""
    return any(
        not isinstance(module.parent(use), ast.Subscript)
        and not isinstance(module.parent(use), ast.Attribute)
        for use in module.tree.uses_of(checkpoint.id)
    )
