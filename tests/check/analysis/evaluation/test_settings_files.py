"""Values of settings files that a script loads, and of the objects that parsers make of them."""

import ast
from pathlib import Path

import pytest

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.project import Project
from gpuproof.linter.source.read import read_units
from support.check_helpers import write_files

CONFIG = """
device: cuda:0
train: &train
  num_workers: 0
  lr: 0.001
  gpus: [0, 1]
test:
  <<: *train
  lr: 0.5
path: ${oc.env:HOME}/data
"""


def value_in(folder: Path, script: str, files: dict[str, str], name: str = "train.py") -> Value:
    """The value of the last expression of a script."""
    write_files(folder, {name: script, **files})
    units, _ = read_units([str(folder / name)])
    module = Project(units).workspace.module(units[0])
    assert module is not None
    last = module.tree.root.body[-1]
    assert isinstance(last, ast.Expr)
    return evaluate(module, last.value)


@pytest.mark.parametrize(
    "script",
    [
        'with open("config.yaml") as file:\n    cfg = yaml.safe_load(file)\ncfg["train"]["num_workers"]',
        'cfg = yaml.load(open("config.yaml"), Loader=yaml.SafeLoader)\ncfg["train"].get("num_workers", 4)',
        'cfg = yaml.safe_load(Path("config.yaml").read_text())\ncfg["test"]["num_workers"]',
        'HERE = Path(__file__).resolve().parent\ncfg = yaml.safe_load((HERE / "config.yaml").open())\ncfg["train"]["num_workers"]',
        'p = os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.yaml")\ncfg = OmegaConf.load(p)\ncfg.train.num_workers',
        'cfg = OmegaConf.merge(OmegaConf.create({"train": {"num_workers": 8}}), OmegaConf.load("config.yaml"))\ncfg.train.num_workers',
        'cfg = SimpleNamespace(**yaml.safe_load(open("/opt/ml/code/config.yaml")))\ncfg.train["num_workers"]',
        'def load(path):\n    with open(path) as f:\n        return yaml.safe_load(f)\ncfg = load("config.yaml")\ncfg["train"]["num_workers"]',
        'def load(path="config.yaml"):\n    cfg = yaml.safe_load(open(path))\n    return cfg["train"]\nload()["num_workers"]',
        'from settings import CFG\nCFG["train"]["num_workers"]',
        'import settings\nsettings.read("config.yaml").train.num_workers',
        '@dataclass\nclass Train:\n    lr: float\n    gpus: list\n    num_workers: int = 9\ncfg = Train(**yaml.safe_load(open("config.yaml"))["train"])\ncfg.num_workers',
    ],
)
def test_a_value_of_the_file_is_known(script: str, tmp_path: Path) -> None:
    head = "import os, yaml\nfrom dataclasses import dataclass\nfrom pathlib import Path\nfrom types import SimpleNamespace\nfrom omegaconf import OmegaConf\n"
    settings = (
        "import yaml\nfrom easydict import EasyDict\nCFG = yaml.safe_load(open('config.yaml'))\n"
        "def read(path):\n    return EasyDict(yaml.safe_load(open(path)))\n"
    )
    value = value_in(tmp_path, head + script, {"config.yaml": CONFIG, "settings.py": settings})
    assert value.number == 0
    assert value.is_known or "def load(path=" in script


@pytest.mark.parametrize(
    ("name", "text", "load", "expression", "expected"),
    [
        ("c.json", '{"a": {\n\t"lr": 1e-4}}', "json.load(open('c.json'))", 'cfg["a"]["lr"]', 1e-4),
        ("c.json", '{"a": [1, 2]}', "json.loads(open('c.json').read())", 'cfg["a"][1]', 2),
        ("c.toml", "[a]\nworkers = 3\n", "tomllib.load(open('c.toml', 'rb'))", 'cfg["a"]["workers"]', 3),
        ("c.yaml", "lr: 1e-4\n", "yaml.safe_load(open('c.yaml'))", 'cfg["lr"]', "1e-4"),
        ("c.yaml", "1: {a: on}\n", "yaml.safe_load(open('c.yaml'))", 'cfg[1]["a"]', True),
    ],
)
def test_each_format_has_the_types_of_its_loader(
    name: str, text: str, load: str, expression: str, expected: object, tmp_path: Path
) -> None:
    script = f"import json, tomllib, yaml\ncfg = {load}\n{expression}"
    value = value_in(tmp_path, script, {name: text})
    assert value.is_known
    assert value.value == expected


def test_a_path_from_the_command_line_is_a_default(tmp_path: Path) -> None:
    script = (
        "import argparse, yaml\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--config', default='conf/base.yaml')\nargs = parser.parse_args()\n"
        "cfg = yaml.safe_load(open(args.config))\ncfg['train']['lr']"
    )
    value = value_in(tmp_path, script, {"conf/base.yaml": CONFIG})
    assert (value.certainty, value.value) == ("default", 0.001)


def test_defaults_of_the_parser_may_come_from_a_file(tmp_path: Path) -> None:
    script = (
        "import argparse, yaml\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', default=3)\n"
        "parser.set_defaults(**yaml.safe_load(open('c.yaml')))\nargs = parser.parse_args()\nargs.lr"
    )
    assert value_in(tmp_path, script, {"c.yaml": "lr: 5\n"}).value == 5
    assert value_in(tmp_path, script.replace("'c.yaml'", "x"), {}).is_unknown


def test_hydra_composes_its_groups(tmp_path: Path) -> None:
    script = '@hydra.main(config_path="conf", config_name="config", version_base=None)\ndef main(cfg):\n    pass\nimport hydra\nmain'
    files = {
        "conf/config.yaml": "defaults:\n  - model: resnet\n  - _self_\nworkers: 0\nmodel:\n  depth: 50\n",
        "conf/model/resnet.yaml": "depth: 18\nname: resnet\n",
    }
    write_files(tmp_path, {"train.py": script, **files})
    units, _ = read_units([str(tmp_path / "train.py")])
    module = Project(units).workspace.module(units[0])
    assert module is not None
    from gpuproof.linter.analysis.evaluation.hydra_files import hydra_settings

    value = hydra_settings(module, module.functions["main"])
    assert value is not None
    assert value.plain() == {"workers": 0, "model": {"depth": 50, "name": "resnet"}}
    assert value.at("model", "depth").certainty == "default"


def test_dataclasses_of_a_parser(tmp_path: Path) -> None:
    script = (
        "from dataclasses import dataclass, field\nfrom transformers import HfArgumentParser, TrainingArguments\n"
        "@dataclass\nclass Own:\n    path: str\n    workers: int = field(default=4)\n"
        "parser = HfArgumentParser((Own, TrainingArguments))\n{}\n"
    )
    files = {"a.json": '{"path": "x", "workers": 0, "fp16": true}'}
    by_file = script.format('own, theirs = parser.parse_json_file(json_file="a.json")')
    assert value_in(tmp_path, by_file + "own.workers", files).number == 0
    assert value_in(tmp_path, by_file + "theirs.fp16", files).flag is True
    by_words = script.format("own, theirs = parser.parse_args_into_dataclasses()")
    assert value_in(tmp_path, by_words + "own.workers", files).certainty == "default"
    assert value_in(tmp_path, by_words + "own.path", files).is_unknown


@pytest.mark.parametrize(
    "change",
    [
        'cfg["train"]["num_workers"] = 4',
        'cfg["train"].update(other)',
        "cfg.update(other)",
        "cfg.train.num_workers = 4",
        "cfg = yaml.safe_load(open('missing.yaml'))",
        "cfg = yaml.safe_load(open('../../../../../../etc/config.yaml'))",
    ],
)
def test_what_code_may_change_is_unknown(change: str, tmp_path: Path) -> None:
    script = f"import yaml\ncfg = yaml.safe_load(open('config.yaml'))\n{change}\n"
    access = "cfg.train.num_workers" if change.startswith("cfg.train") else 'cfg["train"]["num_workers"]'
    assert not value_in(tmp_path, script + access, {"config.yaml": CONFIG}).is_known


def test_interpolations_and_malformed_files_are_unknown(tmp_path: Path) -> None:
    script = "import yaml\ncfg = yaml.safe_load(open('config.yaml'))\ncfg['path']"
    assert value_in(tmp_path, script, {"config.yaml": CONFIG}).is_unknown
    assert value_in(tmp_path, script, {"config.yaml": "path: [1"}).is_unknown
    assert value_in(tmp_path, script, {"config.yaml": "path: &a [*a]"}).at(0).is_unknown


def test_options_of_click_and_typer_are_defaults(tmp_path: Path) -> None:
    by_click = "import click\n@click.command()\n@click.option('--workers', default=0)\ndef main(workers):\n    print(workers)\n"
    by_typer = "import typer\ndef main(workers: int = typer.Option(0, '--workers')):\n    print(workers)\n"
    for script in (by_click, by_typer):
        write_files(tmp_path, {"train.py": script})
        units, _ = read_units([str(tmp_path / "train.py")])
        module = Project(units).workspace.module(units[0])
        assert module is not None
        printed = next(call for call in module.nodes(ast.Call) if module.text(call) == "print(workers)")
        value = evaluate(module, printed.args[0])
        assert (value.certainty, value.number) == ("default", 0)


def test_hydra_settings_are_known_if_the_command_of_the_only_job_is(tmp_path: Path) -> None:
    files = {
        "train.py": '@hydra.main(config_path="conf", config_name="config", version_base=None)\ndef main(cfg):\n    pass\nimport hydra\nmain()',
        "conf/config.yaml": "defaults:\n  - model: small\n  - override /extra: null\nlr: 3e-4\nseed: ???\n",
        "conf/model/small.yaml": "depth: 18\n",
        "conf/model/large.yaml": "# @package _global_\nmodel:\n  depth: 50\n",
    }
    write_files(tmp_path, files)
    units, _ = read_units([str(tmp_path / "train.py")])
    workspace = Project(units).workspace
    workspace.set_job_arguments(units[0], ["model=large", "+trainer.fast=true", "seed=7"])
    module = workspace.module(units[0])
    assert module is not None
    from gpuproof.linter.analysis.evaluation.hydra_files import hydra_settings

    value = hydra_settings(module, module.functions["main"])
    assert value is not None
    assert value.plain() == {"model": {"depth": 50}, "lr": 3e-4, "seed": 7, "trainer": {"fast": True}}
    assert value.at("model", "depth").is_known
