"""A module's `__init__` assigns layers before, or without, `super().__init__()`: an AttributeError when it is created.

`nn.Module.__init__` creates the tables in which layers are registered: "cannot assign module before Module.__init__() call". Also
`super().__init__` without parentheses calls nothing.

Bad:

    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(4, 2)  # <-

Bad: named, and not called

    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super(Net, self).__init__
            self.fc = nn.Linear(4, 2)  # <-

Good:

    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

Quiet: the base class is called by its name, or the layers come later

    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            nn.Module.__init__(self)
            self.fc = nn.Linear(4, 2)

    class Late(nn.Module):
        def __init__(self, size):
            self.size = size
            super().__init__()
            self.fc = nn.Linear(size, 2)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.call_targets import methods
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT131", "module-init-not-called", Severity.ERROR, needs=("Module",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    for owner in module.classes.values():
        if [module.qualified(base) for base in owner.bases] != ["torch.nn.Module"]:
            continue
        start = next((method for method in methods(owner) if method.name == "__init__"), None)
        if start is None or owner.decorator_list:
            continue
        for statement in start.body:
            if _calls_base(statement):
                break
            if _assigns_layer(module, statement):
                yield rule.hit(
                    module.span(statement),
                    f"`{owner.name}.__init__` assigns a layer before super().__init__(): an AttributeError.",
                    remedy="Call super().__init__() first.",
                )
                break


def _calls_base(statement: ast.stmt) -> bool:
    """Whether a statement calls some `__init__`, or another method that may."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            node.func.attr == "__init__"
            or (isinstance(node.func.value, ast.Name) and node.func.value.id == "self")
        )
        for node in ast.walk(statement)
    )


def _assigns_layer(module: Module, statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self"))],
            value=ast.Call(func=ast.Name() | ast.Attribute() as function),
        ):
            name = module.qualified(function) or ""
            return (
                name.startswith("torch.nn.")
                and name.rpartition(".")[2][:1].isupper()
                and name.count(".") == 2
            )
        case _:
            return False
