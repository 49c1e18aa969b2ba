"""The model of one Python text: names, calls, loops, places."""

import ast

import pytest

from gpuproof.check.analysis.call import all_calls, calls_named, calls_to, origin_call
from support.check_helpers import module_of


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.load('f')",
        "import torch as t\nt.load('f')",
        "from torch import load\nload('f')",
        "from torch import load as L\nL('f')",
        "import torch\nload = torch.load\nload('f')",
        "import torch\ndef f():\n    return torch.load('f')",
    ],
)
def test_a_call_is_found_whatever_the_import(text: str) -> None:
    assert [call.name for call in calls_to(module_of(text), "torch.load")] == ["torch.load"]


@pytest.mark.parametrize(
    "text",
    [
        "from torch import load\ndef load(f):\n    pass\nload('f')",
        "from torch import load\ndef f(load):\n    load('f')",
        "load('f')",
        "class A:\n    def load(self, f): ...\nA().load('f')",
    ],
)
def test_a_name_that_the_file_binds_itself_is_nobody_elses(text: str) -> None:
    assert calls_to(module_of(text), "torch.load") == []


def test_a_submodule_pattern_takes_everything_below_it() -> None:
    module = module_of("import torch\ntorch.cuda.amp.autocast()\ntorch.load('f')")
    assert [call.name for call in calls_to(module, "torch.cuda.*")] == ["torch.cuda.amp.autocast"]


def test_imports_knows_packages_and_names() -> None:
    module = module_of("from sagemaker.pytorch import PyTorch\nimport torch.nn as nn")
    assert module.imports("sagemaker")
    assert module.imports("sagemaker.pytorch.PyTorch")
    assert module.imports("torch")
    assert not module.imports("torchvision", "sage")


def test_a_positional_and_a_keyword_argument_are_the_same() -> None:
    module = module_of("f(1, 2)\nf(a=1, b=2)\nf(1, *rest)\nf(1, **rest)")
    values = [call.argument("b", 1) for call in calls_named(module, "f")]
    assert [value.value for value in values] == [2, 2, None, None]
    assert [value.certainty for value in values] == ["known", "known", "unknown", "unknown"]


def test_a_known_splat_gives_its_keywords_and_ends_doubt() -> None:
    module = module_of("d = {'a': 1}\nf(**d)")
    call = calls_named(module, "f")[0]
    assert call.argument("a").value == 1
    assert call.argument("b").is_absent
    assert not call.is_open


def test_the_iterable_of_a_loop_is_not_repeated_but_the_test_of_a_while_is() -> None:
    module = module_of("for x in f():\n    g()\nwhile h():\n    pass")
    loops = {call.method: len(module.loops_around(call.node)) for call in all_calls(module)}
    assert loops == {"f": 0, "g": 1, "h": 1}


def test_columns_count_characters_and_not_bytes() -> None:
    module = module_of('name = "é" + load()')
    span = module.span(calls_named(module, "load")[0].node)
    assert span.column == 14
    assert module.text(calls_named(module, "load")[0].node) == "load()"


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


def test_match_statements_are_walked() -> None:
    module = module_of("match x:\n    case True: f()\n    case {'a': 1, **rest}: g()\n    case [*a]: h()")
    assert [call.method for call in all_calls(module)] == ["f", "g", "h"]
