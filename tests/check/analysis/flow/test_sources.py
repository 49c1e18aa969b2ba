"""Where values come from, through the whole program."""

import ast
from pathlib import Path

import pytest

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.call_sites import call_sites, known_call_sites
from gpuproof.linter.analysis.flow.creations import created_classes, creations
from gpuproof.linter.analysis.flow.repeats import in_training_loop, is_repeated
from gpuproof.linter.analysis.flow.sources import attribute_sources, sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.source.read import read_units
from support.check_helpers import module_of, write_files


def modules_in(folder: Path, files: dict[str, str]) -> dict[str, Module]:
    write_files(folder, files)
    units, _ = read_units([str(folder / name) for name in files])
    workspace = Project(units).workspace
    modules = [workspace.module(unit) for unit in units]
    return {name: module for name, module in zip(files, modules, strict=True) if module is not None}


def used(module: Module) -> ast.expr:
    """The argument of `use(...)`."""
    return calls_named(module, "use")[0].node.args[0]


def made(folder: Path, files: dict[str, str], used_in: str) -> list[str]:
    module = modules_in(folder, files)[used_in]
    return sorted(call.method for call in creations(module, used(module)))


def test_a_parameter_is_followed_to_the_call_in_another_file(tmp_path: Path) -> None:
    files = {
        "loop.py": "def train(model, loader):\n    use(model)\n",
        "main.py": "from loop import train\ndef main():\n    net = Net()\n    train(net, [])\nmain()\n",
    }
    assert made(tmp_path, files, "loop.py") == ["Net"]


def test_every_caller_counts(tmp_path: Path) -> None:
    files = {
        "loop.py": "def train(model):\n    use(model)\n",
        "main.py": "import loop\nloop.train(Net())\n",
        "other.py": "from loop import train as run\nrun(model=Small())\n",
    }
    assert made(tmp_path, files, "loop.py") == ["Net", "Small"]


def test_tests_are_no_callers(tmp_path: Path) -> None:
    files = {
        "loop.py": "def train(model):\n    use(model)\n",
        "main.py": "import loop\nloop.train(Net())\n",
        "test_loop.py": "from loop import train\ntrain(fake)\n",
    }
    assert made(tmp_path, files, "loop.py") == ["Net"]


def test_the_package_may_export_it_again(tmp_path: Path) -> None:
    files = {
        "lib/__init__.py": "from .nets import build\n",
        "lib/nets.py": "def build(name):\n    return Net(name)\n",
        "main.py": "from lib import build\nuse(build('a'))\n",
    }
    assert made(tmp_path, files, "main.py") == ["Net"]


def test_an_attribute_is_followed_to_what_the_constructor_gets(tmp_path: Path) -> None:
    files = {
        "trainer.py": """
            class Trainer:
                def __init__(self, model, loader, lr=0.1):
                    self.model, self.loader = model, loader
                def fit(self):
                    use(self.model)
            """,
        "main.py": "from trainer import Trainer\nTrainer(Net().cuda(), loader=[]).fit()\n",
    }
    assert made(tmp_path, files, "trainer.py") == ["Net"]


@pytest.mark.parametrize(
    "text",
    [
        (
            "class T:\n    def __init__(self, m):\n        self.m = m\n    def fit(self):\n        run(self.m)\n"
            "def run(m):\n    use(m)\nT(Net()).fit()"
        ),
        (
            "class Base:\n    def __init__(self, m):\n        self.m = m\n"
            "class T(Base):\n    def __init__(self):\n        super().__init__(Net())\n    def fit(self):\n        use(self.m)"
        ),
        "class T:\n    def __init__(self):\n        self.m = Net()\n        self.m = self.m.to('cuda')\n    def f(self):\n        use(self.m)",
        "class T:\n    def build(self):\n        return Net()\n    def f(self):\n        m = self.build()\n        use(m)",
        "class T:\n    @property\n    def m(self):\n        return Net()\n    def f(self):\n        use(self.m)",
        (
            "from dataclasses import dataclass\n@dataclass\nclass State:\n    model: object\n    step: int = 0\n"
            "def run(state: State):\n    use(state.model)\nrun(State(Net()))"
        ),
        "class T: pass\nt = T()\nt.m = Net()\nuse(t.m)",
        "def build():\n    return {'model': Net(), 'loss': L()}\nparts = build()\nuse(parts['model'])",
        "parts = {}\nparts['model'] = Net()\nuse(parts['model'])",
        "def build():\n    m, o = Net(), O()\n    return m, o\nm, o = build()\nuse(m)",
        "def build():\n    return Net(), O()\nuse(build()[0])",
        "class T:\n    def f(self):\n        use(self.m)\n    def setup(self):\n        self.m, self.o = build()\ndef build():\n    return Net(), 1",
        "def run(**options):\n    pass\ndef train(m, lr):\n    use(m)\ntrain(**{'m': Net(), 'lr': 1})",
        "def fit(m=None, *, lr=1):\n    use(m)\nfit(lr=2, m=Net())",
        "def main(m=None):\n    m = m or Net()\n    use(m)\nmain(m=Net())",
        "import torch\ndef input_fn(b, c):\n    return Net()\ndef predict_fn(data, model):\n    use(data)",
        "def predict_fn(d, m):\n    return Net()\ndef output_fn(prediction, accept):\n    use(prediction)",
    ],
)
def test_an_object_is_followed_to_its_creation(text: str) -> None:
    module = module_of(text)
    assert [call.method for call in creations(module, used(module))][:1] == ["Net"]


@pytest.mark.parametrize(
    "text",
    [
        "from functools import partial\nclass Net: pass\nMake = partial(Net, 3)\nuse(Make())",
        "class Net: pass\nMODELS = {'net': Net}\ndef build(name):\n    return MODELS[name]()\nuse(build('net'))",
        "class Net: pass\ndef build(cls):\n    return cls(3)\nuse(build(Net))",
    ],
)
def test_the_class_is_known_without_its_name_in_the_call(text: str) -> None:
    module = module_of(text)
    assert [owner.node.name for owner in created_classes(module, used(module))] == ["Net"]


@pytest.mark.parametrize(
    "text",
    [
        "import threading\ndef run(m):\n    use(m)\nrun(Net())\nthreading.Thread(target=run).start()",
        "class T:\n    def __init__(self, m):\n        self.m = m\n    def f(self):\n        use(self.m)",
        "def run(m):\n    use(m)\nrun(*parts)",
        "def run(m):\n    use(m)\nrun(**options)",
        "class T:\n    def f(self):\n        use(self.m)\n    def g(self):\n        with open_net() as self.m:\n            pass",
        "for m in nets:\n    use(m)",
    ],
)
def test_nothing_is_known_if_something_else_may_pass_it(text: str) -> None:
    module = module_of(text)
    assert creations(module, used(module)) == []


def test_the_calls_of_a_method_are_found_through_objects(tmp_path: Path) -> None:
    files = {
        "trainer.py": "class Trainer:\n    def step(self, batch):\n        pass\n",
        "main.py": """
            from trainer import Trainer
            def build():
                return Trainer()
            trainer = build()
            for batch in []:
                trainer.step(batch)
            optimizer.step()
            """,
    }
    modules = modules_in(tmp_path, files)
    method = modules["trainer.py"].nodes(ast.FunctionDef)[0]
    found = call_sites(modules["trainer.py"], method)
    assert found is not None
    assert [(site.module.title, site.call.lineno) for site in found] == [("main.py", 7)]
    assert is_repeated(modules["trainer.py"], method.body[0])


def test_a_function_that_is_passed_on_may_have_other_calls() -> None:
    module = module_of("def run(m):\n    pass\nrun(1)\nspawn(run)\n")
    function = module.functions["run"]
    assert call_sites(module, function) is None
    assert len(known_call_sites(module, function)) == 1


def test_a_training_loop_is_one_whose_calls_run_backward(tmp_path: Path) -> None:
    files = {
        "main.py": "from steps import step\nfor batch in loader:\n    step(batch)\n    report()\ndef report():\n    use(1)\n",
        "steps.py": "def step(batch):\n    loss(batch).backward()\n",
    }
    module = modules_in(tmp_path, files)["main.py"]
    assert in_training_loop(module, used(module))
    module = module_of("for batch in loader:\n    report()\ndef report():\n    use(1)\n")
    assert is_repeated(module, used(module))
    assert not in_training_loop(module, used(module))


def test_the_value_of_an_attribute_comes_from_all_calls_or_is_the_attribute_of_an_unknown_object() -> None:
    text = "class T:\n    def __init__(self, n):\n        self.n = n\n    def f(self):\n        use(self.n)\nT(3)\nT(4)\n"
    module = module_of(text)
    node = used(module)
    assert isinstance(node, ast.Attribute)
    found = attribute_sources(module, node)
    assert found.complete
    assert [source.module.text(source.node) for source in found.found] == ["3", "4"]
    module = module_of("def f(thing):\n    use(thing.n)\n")
    node = used(module)
    assert isinstance(node, ast.Attribute)
    assert [source.node for source in attribute_sources(module, node).found] == [node]


def test_the_cost_is_bounded() -> None:
    chain = "".join(f"def f{i}(x):\n    return f{i + 1}(x) or f{i + 1}(x + 1)\n" for i in range(300))
    module = module_of(f"{chain}def f300(x):\n    return g(x)\nuse(f0(1))\n")
    assert not sources(module, used(module)).complete
