"""The calls of a module: by name, by qualified name, and their arguments."""

import pytest

from gpuproof.linter.analysis.call import all_calls, calls_named, calls_to
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
def test_a_name_bound_in_the_file_is_not_the_librarys(text: str) -> None:
    assert calls_to(module_of(text), "torch.load") == []


def test_a_submodule_pattern_takes_everything_below_it() -> None:
    module = module_of("import torch\ntorch.cuda.amp.autocast()\ntorch.load('f')")
    assert [call.name for call in calls_to(module, "torch.cuda.*")] == ["torch.cuda.amp.autocast"]


def test_a_positional_and_a_keyword_argument_are_the_same() -> None:
    module = module_of("f(1, 2)\nf(a=1, b=2)\nf(1, *rest)\nf(1, **rest)")
    values = [call.argument("b", 1) for call in calls_named(module, "f")]
    assert [value.value for value in values] == [2, 2, None, None]
    assert [value.certainty for value in values] == ["known", "known", "unknown", "unknown"]


def test_a_known_splat_provides_its_keywords_and_closes_the_call() -> None:
    module = module_of("d = {'a': 1}\nf(**d)")
    call = calls_named(module, "f")[0]
    assert call.argument("a").value == 1
    assert call.argument("b").is_absent
    assert not call.is_open


def test_match_statements_are_walked() -> None:
    module = module_of("match x:\n    case True: f()\n    case {'a': 1, **rest}: g()\n    case [*a]: h()")
    assert [call.method for call in all_calls(module)] == ["f", "g", "h"]
