"""The calls that may have created an object."""

from pathlib import Path

import pytest

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.project import Project
from gpuproof.linter.source.read import read_units
from support.check_helpers import module_of, write_files


def made(text: str) -> list[str]:
    """What created the argument of `use(...)`."""
    module = module_of(text)
    return sorted(call.method for call in creations(module, calls_named(module, "use")[0].node.args[0]))


@pytest.mark.parametrize(
    "text",
    [
        "x = Net()\nuse(x)",
        "use(Net().to('cuda').eval())",
        "def build():\n    return Net(), 1\nx, n = build()\nuse(x)",
        "def run(x):\n    use(x)\nrun(Net())",
        "import torch\nx = torch.nn.DataParallel(Net().cuda())\nuse(x)",
        "class A:\n    def __init__(self):\n        self.x = Net()\n    def f(self):\n        use(self.x)",
        "def model_fn(model_dir):\n    return Net().eval()\ndef predict_fn(data, model):\n    use(model)",
    ],
)
def test_an_object_is_followed_to_the_call_that_created_it(text: str) -> None:
    assert made(text) == ["Net"]


def test_each_branch_counts() -> None:
    assert made("x = Net() if big else Small()\nif big:\n    y = Net()\nelse:\n    y = Small()\nuse(y)") == [
        "Net",
        "Small",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "if big:\n    x = Net()\nelse:\n    x = given\nuse(x)",
        "def run(x):\n    use(x)\nrun(Net())\nrun(given)",
        "def build():\n    if big:\n        return given\n    return Net()\nuse(build())",
        "def run(x):\n    use(x)",
        "def run(x):\n    run(x)\n    use(x)",
    ],
)
def test_nothing_is_known_if_one_of_several_origins_is_unknown(text: str) -> None:
    assert made(text) == []


def test_a_function_of_another_file_is_followed(tmp_path: Path) -> None:
    nets, train = (
        "def build():\n    return Net(), 1\n",
        "from nets import build\nx, n = build()\nuse(x)\n",
    )
    write_files(tmp_path, {"nets.py": nets, "train.py": train})
    units, _ = read_units([str(tmp_path / name) for name in ("nets.py", "train.py")])
    module = Project(units).workspace.module(units[1])
    assert module is not None
    found = creations(module, calls_named(module, "use")[0].node.args[0])
    assert [(call.method, call.module.title) for call in found] == [("Net", "nets.py")]
