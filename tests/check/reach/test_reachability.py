"""Which lines a job certainly runs."""

import textwrap
from pathlib import Path

import pytest

from gpuproof.linter.project import Project
from gpuproof.linter.reach.reachability import Reachability
from gpuproof.linter.source.read import read_units


def doubt_of(folder: Path, script: str, *words: str, mark: str = "HERE", **files: str) -> str | None:
    """The doubt about the line that contains the mark, in whichever file it is."""
    paths: list[str] = []
    for name, text in {"train": script, **files}.items():
        path = folder / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        paths.append(str(path))
    units, _ = read_units(paths)
    project = Project(units)
    project.workspace.set_job_arguments(units[0], words)
    module = project.workspace.module(units[0])
    assert module is not None
    reach = Reachability(module, has_gpu=True)
    unit, line = next((u, n) for u in units for n, text in enumerate(u.lines, 1) if mark in text)
    return reach.doubt(unit.span(line, len(unit.lines[line - 1]) - len(unit.lines[line - 1].lstrip()) + 1))


RUNS = {
    "top level": "run()  # HERE",
    "main guard": 'if __name__ == "__main__":\n    run()  # HERE',
    "called function": "def main():\n    run()  # HERE\nmain()",
    "nested calls": "def one():\n    run()  # HERE\ndef two():\n    one()\nfor _ in range(3):\n    two()",
    "decorated": "@record\ndef main():\n    run()  # HERE\nmain()",
    "sys.exit(main())": "import sys\ndef main():\n    run()  # HERE\nsys.exit(main())",
    "with": "with open('x') as f:\n    run()  # HERE",
    "gpu is there": "import torch\nif torch.cuda.is_available():\n    run()  # HERE",
    "gpus are counted": "import torch\nif torch.cuda.device_count() > 0:\n    run()  # HERE",
    "rank 0": "if rank == 0:\n    run()  # HERE",
    "main process": "if accelerator.is_main_process:\n    run()  # HERE",
    "first rank by call": "import torch.distributed as dist\nif dist.get_rank() == 0:\n    run()  # HERE",
    "after a check": "import sys\nif len(files) == 0:\n    raise ValueError\nif broken:\n    sys.exit('no data')\nrun()  # HERE",
    "after continue": "for x in xs:\n    if x is None:\n        continue\n    run()  # HERE",
    "harmless handler": "try:\n    run()  # HERE\nexcept KeyboardInterrupt:\n    pass",
    "handler that fails": "import sys\ntry:\n    run()  # HERE\nexcept Exception:\n    sys.exit(255)",
    "finally": "try:\n    x()\nfinally:\n    run()  # HERE",
    "constructor": "class A:\n    def __init__(self):\n        run()  # HERE\nA()",
    "method": "class A:\n    def go(self):\n        run()  # HERE\na = A()\na.go()",
    "method of self": "class A:\n    def go(self):\n        self.on()\n    def on(self):\n        run()  # HERE\nA().go()",
    "inherited": "class B:\n    def go(self):\n        run()  # HERE\nclass A(B):\n    pass\nA().go()",
    "forward": "class Net(M):\n    def forward(self, x):\n        return run()  # HERE\nnet = Net().to(d)\nnet(x)",
    "spawned": "import torch.multiprocessing as mp\ndef work(rank):\n    run()  # HERE\nmp.spawn(work, nprocs=2)",
    "process": "import torch.multiprocessing as mp\ndef w():\n    run()  # HERE\np = mp.Process(target=w)\np.start()",
    "app.run": "from absl import app\ndef main(argv):\n    run()  # HERE\napp.run(main)",
    "known constant": "SAVE = True\nif SAVE and not False:\n    run()  # HERE",
    "known loop": "for i in range(3):\n    run()  # HERE",
    "while true": "while True:\n    run()  # HERE\n    if done:\n        break",
    "ternary": "run() if 1 > 0 else skip()  # HERE",
}
MAY_NOT_RUN = {
    "uncalled function": ("def predict_fn(d, m):\n    run()  # HERE", "does not call `predict_fn` directly"),
    "unknown condition": ("if loss < best:\n    run()  # HERE", "only runs if `loss < best`"),
    "else": ("if loss < best:\n    x()\nelse:\n    run()  # HERE", "does not run if `loss < best`"),
    "false condition": ("if False:\n    run()  # HERE", "`False` is false"),
    "imported guard": ('if __name__ != "__main__":\n    run()  # HERE', "only runs if"),
    "no cpu branch": (
        "import torch\nif torch.cuda.is_available():\n    x()\nelse:\n    run()  # HERE",
        "`torch.cuda.is_available()` is true",
    ),
    "after return": ("def main():\n    return 1\n    run()  # HERE\nmain()", "does not reach the line"),
    "after sys.exit": ("import sys\nsys.exit()\nrun()  # HERE", "does not reach the line"),
    "after maybe return": (
        "def main():\n    if x:\n        return\n    run()  # HERE\nmain()",
        "may not run because of `if x`",
    ),
    "handled error": ("try:\n    run()  # HERE\nexcept Exception:\n    pass", "handles the error"),
    "call in a handled block": (
        "def main():\n    run()  # HERE\ntry:\n    main()\nexcept RuntimeError as e:\n    print(e)",
        "handles the error",
    ),
    "handler": ("try:\n    x()\nexcept ImportError:\n    run()  # HERE", "after an exception"),
    "suppressed": (
        "from contextlib import suppress\nwith suppress(Exception):\n    run()  # HERE",
        "suppresses",
    ),
    "callback": ("def hook(x):\n    run()  # HERE\nmodel.register(hook)", "`register` decides"),
    "framework method": (
        "class Net(M):\n    def training_step(self, b):\n        run()  # HERE\nNet()",
        "`Net.training_step` is called indirectly",
    ),
    "method of no instance": (
        "class Net(M):\n    def go(self):\n        run()  # HERE",
        "does not call `go`",
    ),
    "case": ("match mode:\n    case 'a':\n        run()  # HERE", "one `case`"),
    "empty loop": ("for i in range(0):\n    run()  # HERE", "does not run the loop"),
    "exec": ("save = True\nexec(open('c.py').read())\nrun()  # HERE", "changes its own variables"),
}


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_the_line_certainly_runs(tmp_path: Path, text: str) -> None:
    assert doubt_of(tmp_path, text) is None


@pytest.mark.parametrize(("text", "reason"), MAY_NOT_RUN.values(), ids=MAY_NOT_RUN)
def test_the_line_may_not_run(tmp_path: Path, text: str, reason: str) -> None:
    found = doubt_of(tmp_path, text)
    assert found is not None
    assert reason in found
    assert found.endswith(".")


@pytest.mark.parametrize(
    "text", ["a = flag and run()", "a = flag or run()", "f = lambda: run()", "a = run() if flag else 0"]
)
def test_a_part_of_an_expression_may_not_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    unit = read_units([str(tmp_path / "train.py")])[0][0]
    module = Project([unit]).workspace.module(unit)
    assert module is not None
    assert Reachability(module).doubt(unit.span(1, text.index("run") + 1)) is not None


OPTION = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--save-model", action="store_true")
parser.add_argument("--epochs", type=int, default=0)
parser.add_argument("--mode", default="train")
def main():
    args = parser.parse_args()
    if {test}:
        run()  # HERE
main()
"""


@pytest.mark.parametrize(
    ("test", "words", "runs"),
    [
        ("args.save_model", [], False),
        ("args.save_model", ["--save-model"], True),
        ("args.save_model", ["--save"], True),
        ("not args.save_model", [], True),
        ("args.epochs > 2", [], False),
        ("args.epochs > 2", ["--epochs", "3"], True),
        ("args.epochs", ["--epochs=3"], True),
        ('args.mode == "export"', [], False),
        ('args.mode == "export"', ["--mode", "export"], True),
        ("args.save_model and args.epochs", ["--save-model"], False),
        ("args.save_model or unknown", ["--save-model"], True),
    ],
)
def test_conditions_are_evaluated_with_the_arguments_of_the_job(
    tmp_path: Path, test: str, words: list[str], *, runs: bool
) -> None:
    assert (doubt_of(tmp_path, OPTION.format(test=test), *words) is None) is runs


def test_an_argument_that_the_script_changes_is_unknown(tmp_path: Path) -> None:
    script = OPTION.format(test="args.save_model").replace("    if", "    args.save_model = choose()\n    if")
    assert "only runs if" in str(doubt_of(tmp_path, script))


def test_calls_are_followed_into_modules_of_the_project(tmp_path: Path) -> None:
    helpers = "def used():\n    run()  # HERE\ndef unused():\n    run()  # THERE\n"
    script = "import helpers\nhelpers.used()\n"
    assert doubt_of(tmp_path, script, helpers=helpers) is None
    assert "does not call `unused`" in str(doubt_of(tmp_path, script, mark="THERE", helpers=helpers))
    assert doubt_of(tmp_path, "from helpers import used\nused()\n", helpers=helpers) is None


def test_a_module_that_is_not_imported_does_not_run(tmp_path: Path) -> None:
    assert doubt_of(tmp_path, "x = 1\n", helpers="run()  # HERE") is not None
    assert doubt_of(tmp_path, "import helpers\n", helpers="run()  # HERE") is None


def test_deep_chains_of_calls_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    chain = "\n".join(f"def f{n}():\n    f{n + 1}()" for n in range(3000))
    assert doubt_of(tmp_path, f"{chain}\ndef f3000():\n    run()  # HERE\nf0()\n") is None


def test_functions_that_call_each_other_end(tmp_path: Path) -> None:
    assert doubt_of(tmp_path, "def a():\n    b()\ndef b():\n    a()\n    run()  # HERE\na()\n") is None
