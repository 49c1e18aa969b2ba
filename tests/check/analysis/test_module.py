"""The model of one Python text: imports, loops, spans, origins."""

import ast

from gpuproof.linter.analysis.call import all_calls, calls_named, origin_call
from support.check_helpers import module_of


def test_imports_knows_packages_and_names() -> None:
    module = module_of("from sagemaker.pytorch import PyTorch\nimport torch.nn as nn")
    assert module.imports("sagemaker")
    assert module.imports("sagemaker.pytorch.PyTorch")
    assert module.imports("torch")
    assert not module.imports("torchvision", "sage")


def test_the_iterable_of_a_loop_is_not_repeated_but_the_test_of_a_while_is() -> None:
    module = module_of("for x in f():\n    g()\nwhile h():\n    pass")
    loops = {call.method: len(module.loops_around(call.node)) for call in all_calls(module)}
    assert loops == {"f": 0, "g": 1, "h": 1}


def test_columns_count_characters_and_not_bytes() -> None:
    module = module_of('name = "é" + load()')
    span = module.span(calls_named(module, "load")[0].node)
    assert span.column == 14
    assert module.text(calls_named(module, "load")[0].node) == "load()"


def test_an_excerpt_is_one_line_and_shows_where_it_is_cut() -> None:
    module = module_of("load(\n    first,\n    second,\n)")
    node = calls_named(module, "load")[0].node
    assert module.excerpt(node) == "load( first, second, )"
    assert module.excerpt(node, 12) == "load( first…"


def test_origin_goes_through_names_with_one_value() -> None:
    module = module_of("a = make()\nb = a\nuse(b)")
    made = module.origin(calls_named(module, "use")[0].node.args[0])
    assert isinstance(made, ast.Call)
    assert origin_call(module, made) is calls_named(module, "make")[0]


def test_origin_stops_where_a_name_may_be_two_things() -> None:
    module = module_of("if c():\n    a = make()\nelse:\n    a = other()\nuse(a)")
    assert isinstance(module.origin(calls_named(module, "use")[0].node.args[0]), ast.Name)


def test_bases_go_through_classes_of_the_same_file() -> None:
    module = module_of("import torch\nclass A(torch.nn.Module): ...\nclass B(A): ...")
    assert list(module.bases(module.classes["B"])) == ["torch.nn.Module"]
