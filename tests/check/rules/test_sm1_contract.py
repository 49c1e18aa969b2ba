"""The SM1 rules on jobs and scripts in several files, beyond the examples in their docstrings."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from gpuproof.linter.rule import Hit

Look = Callable[[str, dict[str, str]], list[Hit]]

PYTORCH = "from sagemaker.pytorch import PyTorch\n"
PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"
HANDLER = "def model_fn(model_dir):\n    return load(model_dir)\n\n"


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Write files into an empty folder and return one rule's findings."""
    monkeypatch.chdir(tmp_path)

    def found(code: str, files: dict[str, str]) -> list[Hit]:
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)
        return list(check_paths(["."], CheckOptions(Selection(select=(code,)))).hits)

    return found


def launch(hyperparameters: str, fit: str = "") -> str:
    job = f'entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={hyperparameters}'
    return f"{PYTORCH}PyTorch({job}).fit({fit})\n"


def test_an_underscore_for_a_hyphen_is_named_with_the_flag_that_was_meant(look: Look) -> None:
    script = PARSER + 'parser.add_argument("--batch-size")\nargs = parser.parse_args()\n'
    (hit,) = look("SM105", {"launch.py": launch('{"batch_size": 1}'), "train.py": script})
    assert "it has --batch-size for --batch_size" in hit.finding.message
    assert hit.fix is None


def test_a_flag_may_be_shortened_as_argparse_allows(look: Look) -> None:
    script = PARSER + 'parser.add_argument("--learning-rate")\nargs = parser.parse_args()\n'
    assert look("SM105", {"launch.py": launch('{"learning": 1}'), "train.py": script}) == []


def test_a_script_with_subcommands_or_its_own_argument_list_has_no_finding(look: Look) -> None:
    for line in ("parser.add_subparsers()\nargs = parser.parse_args()\n", "args = parser.parse_args([])\n"):
        assert look("SM105", {"launch.py": launch('{"epochs": 1}'), "train.py": PARSER + line}) == []


def test_the_toolkits_own_hyperparameters_are_no_arguments(look: Look) -> None:
    files = {
        "launch.py": launch('{"sagemaker_mpi_enabled": True}'),
        "train.py": PARSER + "parser.parse_args()\n",
    }
    assert look("SM105", files) == []


def test_hyperparameters_that_only_the_caller_knows_have_no_finding(look: Look) -> None:
    script = PARSER + "args = parser.parse_args()\n"
    assert look("SM105", {"launch.py": launch("dict(load())"), "train.py": script}) == []


def test_an_empty_hyperparameter_for_a_flag_is_not_judged(look: Look) -> None:
    script = PARSER + 'parser.add_argument("--amp", action="store_true")\nargs = parser.parse_args()\n'
    assert look("SM124", {"launch.py": launch('{"amp": ""}'), "train.py": script}) == []


def test_an_address_alone_is_the_channel_training(look: Look) -> None:
    script = 'import os\na = os.environ["SM_CHANNEL_TRAINING"]\nb = os.environ["SM_CHANNEL_TEST"]\n'
    hits = look("SM109", {"launch.py": launch("{}", '"s3://bucket/data"'), "train.py": script})
    assert [hit.span.line for hit in hits] == [3]


def test_a_function_that_is_never_called_reads_no_channel(look: Look) -> None:
    script = 'import os\ndef folder():\n    return os.environ["SM_CHANNEL_TEST"]\n'
    assert look("SM109", {"launch.py": launch("{}", '{"train": "s3://b"}'), "train.py": script}) == []


@pytest.mark.parametrize(
    "head",
    [
        "def output_fn(prediction, accept, context, more):",
        "def output_fn(prediction):",
        "def transform_fn(model, data):",
    ],
)
def test_a_handler_with_too_many_or_too_few_arguments_is_found(look: Look, head: str) -> None:
    (hit,) = look("SM111", {"inference.py": f"{HANDLER}{head}\n    return 1\n"})
    assert hit.span.line == 4


def test_a_method_of_a_class_is_not_a_handler(look: Look) -> None:
    text = "class Server:\n    def model_fn(self):\n        return 1\n    def predict_fn(self):\n        return 2\n"
    assert look("SM111", {"inference.py": text}) == []


def test_a_model_fn_whose_with_block_returns_is_complete(look: Look) -> None:
    text = "def model_fn(model_dir):\n    with open(model_dir) as file:\n        return read(file)\n"
    assert look("SM112", {"inference.py": text}) == []


def test_a_model_fn_with_an_if_alone_falls_through(look: Look) -> None:
    text = "def model_fn(model_dir):\n    if ready(model_dir):\n        return load(model_dir)\n"
    assert len(look("SM112", {"inference.py": text})) == 1


def processing(inputs: str, script: str) -> dict[str, str]:
    head = "from sagemaker.processing import ProcessingInput, ScriptProcessor\n"
    made = 'ScriptProcessor(image_uri="i", role="r", instance_count=1, instance_type="ml.m5.xlarge")'
    return {"launch.py": f'{head}{made}.run(code="process.py", inputs={inputs})\n', "process.py": script}


def test_an_inputs_name_is_not_a_folder_and_the_fix_names_its_path(look: Look) -> None:
    mounted = '[ProcessingInput(source="s3://b/x", destination="/opt/ml/processing/in", input_name="rows")]'
    (hit,) = look("SM113", processing(mounted, 'print(open("/opt/ml/processing/in/rows").read())\n'))
    assert hit.fix is not None
    assert hit.fix.edits[0].text == '"/opt/ml/processing/in"'


def test_a_local_folder_behind_the_input_may_hold_one_of_its_name(look: Look) -> None:
    mounted = '[ProcessingInput(source="data", destination="/opt/ml/processing/in", input_name="rows")]'
    assert look("SM113", processing(mounted, 'print(open("/opt/ml/processing/in/rows").read())\n')) == []


def test_a_folder_that_the_script_creates_is_not_reported(look: Look) -> None:
    script = 'import os\nos.makedirs("/opt/ml/processing/scratch")\nprint(os.listdir("/opt/ml/processing/scratch"))\n'
    assert look("SM113", processing("[]", script)) == []


def test_a_command_line_may_override_a_default_folder(look: Look) -> None:
    script = PARSER + 'parser.add_argument("--data", default="/opt/ml/processing/data")\n'
    assert look("SM113", processing("[]", script)) == []


def test_model_uri_is_the_channel_model(look: Look) -> None:
    job = 'entry_point="train.py", instance_type="ml.g5.xlarge", model_uri="s3://b/m.tar.gz"'
    files = {
        "launch.py": f'{PYTORCH}PyTorch({job}).fit({{"train": "s3://b"}})\n',
        "train.py": 'import os\nfolder = os.environ["SM_CHANNEL_MODEL"]\n',
    }
    assert look("SM109", files) == []


def test_unknown_mounts_are_not_reported(look: Look) -> None:
    assert look("SM113", processing("mounts()", 'print(open("/opt/ml/processing/in/rows").read())\n')) == []


def test_a_launcher_beside_its_only_script_folder_is_pointed_to_the_folder(look: Look) -> None:
    files = {
        "launch.py": f'{PYTORCH}PyTorch(entry_point="fit.py", instance_type="ml.g5.xlarge")\n',
        "src/fit.py": "",
    }
    (hit,) = look("SM123", files)
    assert 'source_dir="src"' in str(hit.finding.remedy)


def test_a_launcher_alone_gets_no_missing_script_finding(look: Look) -> None:
    assert (
        look(
            "SM123", {"launch.py": f'{PYTORCH}PyTorch(entry_point="fit.py", instance_type="ml.g5.xlarge")\n'}
        )
        == []
    )


def test_a_cell_that_writes_the_script_is_the_script(look: Look) -> None:
    cells = [
        "%%writefile code/train.py\nprint(1)",
        f'{PYTORCH}PyTorch(entry_point="train.py", source_dir="code", instance_type="ml.g5.xlarge")',
    ]
    notebook = {
        "cells": [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells],
        "metadata": {},
        "nbformat": 4,
    }
    assert look("SM123", {"nb.ipynb": json.dumps(notebook), "code/other.py": ""}) == []


def test_a_default_path_is_a_level_less_unless_the_only_job_passes_no_other(look: Look) -> None:
    script = (
        "import argparse\nimport pandas as pd\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--rows", default="data/rows.csv")\nargs = parser.parse_args()\npd.read_csv(args.rows)\n'
    )
    files = {"launch.py": launch("{}"), "train.py": script}
    (hit,) = look("SM108", files)
    assert hit.finding.severity is Severity.WARNING
    (hit,) = look("SM108", {**files, "again.py": launch('{"epochs": 3}')})
    assert hit.finding.severity is not Severity.WARNING


def test_a_path_that_the_job_passes_is_not_reported(look: Look) -> None:
    script = (
        "import argparse\nimport pandas as pd\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--rows", default="data/rows.csv")\nargs = parser.parse_args()\npd.read_csv(args.rows)\n'
    )
    assert look("SM108", {"launch.py": launch('{"rows": "/opt/ml/code/rows.csv"}'), "train.py": script}) == []


def test_a_handler_that_explains_its_predictions_is_a_handler_still(look: Look) -> None:
    text = f"import shap\n{HANDLER}def predict_fn(data):\n    return 1\n"
    assert len(look("SM111", {"inference.py": text})) == 1


def test_a_launcher_that_is_started_in_a_folder_above_finds_its_script_there(look: Look) -> None:
    files = {
        "jobs/launch.py": f'{PYTORCH}PyTorch(entry_point="train.py", source_dir="src", instance_type="ml.g5.xlarge")\n',
        "jobs/src/helper.py": "",
        "src/train.py": "",
    }
    assert look("SM123", files) == []
