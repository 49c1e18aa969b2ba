"""`mp.spawn` cannot start its function: the arguments do not fit, or it cannot be pickled.

`torch.multiprocessing.spawn(fn, args, nprocs)` calls `fn(rank, *args)`: the rank comes first, and must not be in `args`. With one
argument too few or too many every process fails with a TypeError. A function inside another one, or a lambda, cannot be sent to
the processes ("Can't pickle local object"), and `spawn(main(args), ...)` runs `main` once, here, and starts its result.
Source: https://docs.pytorch.org/docs/stable/multiprocessing.html, `spawn`.

Bad: the rank is missing

    import torch

    def main(world_size):
        print(world_size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(main, args=(4,), nprocs=4)  # <-

Bad: a function of a function

    import torch

    def launch(size):
        def worker(rank, size):
            print(rank, size)

        torch.multiprocessing.spawn(worker, args=(size,), nprocs=size)  # <-

    if __name__ == "__main__":
        launch(4)

Bad: called here

    import torch

    def main(rank, size):
        print(rank, size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(main(0, 4), nprocs=4)  # <-

Bad: `args` is no tuple

    import torch

    def main(rank, size):
        print(rank, size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(main, args=(4), nprocs=4)  # <-

Good:

    import torch

    def main(rank, size):
        print(rank, size)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(main, args=(4,), nprocs=4)

Quiet: a parameter with a default, and one for the rest

    import torch

    def main(rank, size, seed=0, *rest):
        print(rank, size, seed, rest)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(main, args=(4, 1, 2, 3), nprocs=4)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS150", "spawn-arguments", Severity.ERROR, needs=("spawn",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for call in calls_to(module, "torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"):
        problem = _problem(module, call)
        if problem is not None:
            yield rule.hit(call.span, problem[0], remedy=problem[1])


def _problem(module: Module, call: Call) -> tuple[str, str] | None:
    function, arguments = call.expression("fn", 0), call.expression("args", 1)
    if isinstance(function, ast.Lambda):
        return (
            "A lambda cannot be sent to the processes: it cannot be pickled.",
            "Define a function at the top level.",
        )
    if isinstance(function, ast.Call):
        found = find_definition(module, function.func)
        if found is None or isinstance(found.node, ast.ClassDef) or _returns(found):
            return None
        text = module.text(function.func)
        return (
            f"`{module.text(function)}` runs here, once, and returns None, which the processes cannot call.",
            f"Pass the function: spawn({text}, args=(...), nprocs=...).",
        )
    found = find_definition(module, function) if isinstance(function, (ast.Name, ast.Attribute)) else None
    if found is None or isinstance(found.node, ast.ClassDef) or found.node.decorator_list:
        return None
    home, definition = found.module, found.node
    if home.function_of(definition) is not None:
        return (
            f"`{definition.name}` is a function inside another one, which cannot be sent to the processes: it cannot be pickled.",
            "Define it at the top level of the file.",
        )
    if isinstance(home.parent(definition), ast.ClassDef):
        return None
    given = 0
    made = module.origin(arguments)
    match made:
        case None if arguments is None and not call.is_open:
            pass
        case ast.Tuple(elts=items) | ast.List(elts=items) if not any(
            isinstance(item, ast.Starred) for item in items
        ):
            given = len(items)
        case ast.Constant(value=int() | float() | bool()) if arguments is made:
            return (
                f"args={module.text(made)} is a number, not a tuple: spawn cannot pass its items.",
                f"Write a comma: args=({module.text(made).strip('()')},).",
            )
        case _:
            return None
    own = definition.args
    names = [*own.posonlyargs, *own.args]
    least = len(names) - len(own.defaults)
    if least <= given + 1 and (own.vararg is not None or given + 1 <= len(names)):
        return None
    takes = str(len(names)) if least == len(names) else f"{least} to {len(names)}"
    return (
        f"spawn calls `{definition.name}` with {given + 1} arguments, the rank and {given} of args, but it takes {takes}.",
        f"Let its parameters be the rank and those of args: def {definition.name}(rank, ...).",
    )


def _returns(found: Definition) -> bool:
    """Whether a function returns a value, which may be a function."""
    return any(
        isinstance(node, (ast.Return, ast.Yield)) and node.value is not None for node in ast.walk(found.node)
    )
