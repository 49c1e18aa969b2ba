"""Which nodes of a function can run together."""

import pytest

from gpuproof.linter.analysis.branches import are_exclusive
from gpuproof.linter.analysis.call import calls_named
from support.check_helpers import module_of


def exclusive(body: str) -> bool:
    module = module_of("def f(x):\n" + "\n".join(f"    {line}" for line in body.strip("\n").split("\n")))
    (first,), (second,) = calls_named(module, "a"), calls_named(module, "b")
    return are_exclusive(module, first.node, second.node)


@pytest.mark.parametrize(
    "body",
    [
        "if x:\n    a()\nelse:\n    b()",
        "if x:\n    a()\nelif y:\n    pass\nelse:\n    b()",
        "if x:\n    return a()\nb()",
        "if x:\n    a()\n    raise E\nfor i in y:\n    b()",
        "match x:\n    case 1:\n        a()\n    case _:\n        b()",
        "match x:\n    case 1:\n        return a()\nb()",
        "z = a() if x else b()",
        "if x:\n    pass\nelse:\n    if y:\n        a()\n        return\n    b()",
    ],
)
def test_branches_that_exclude_each_other(body: str) -> None:
    assert exclusive(body)


@pytest.mark.parametrize(
    "body",
    [
        "a()\nb()",
        "if x:\n    a()\nb()",
        "if x:\n    a()\n    b()",
        "if a():\n    b()",
        "if x:\n    b()\n    if y:\n        a()\n        return",
        "for i in x:\n    if i:\n        a()\n        continue\n    b()",
        "try:\n    a()\nexcept E:\n    b()",
        "match a():\n    case 1:\n        b()",
        "b(a())",
    ],
)
def test_code_that_may_run_together(body: str) -> None:
    assert not exclusive(body)
