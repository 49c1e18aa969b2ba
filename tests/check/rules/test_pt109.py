"""PT109: each way to hide the GPUs of a job or to ask for the CPU, and the near misses."""

from pathlib import Path

import pytest

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="{instance_type}"{more}).fit()
"""
KERAS = "import os\nimport tensorflow as tf\nmodel = tf.keras.Sequential([])\n"
TORCH = "import os\nimport torch\nmodel = torch.nn.Linear(1, 1)\n"
PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"


def severities(
    folder: Path, script: str, instance_type: str | None = "ml.g5.xlarge", more: str = ""
) -> list[Severity]:
    files = {"train.py": script + "\n"}
    if instance_type is not None:
        files["launch.py"] = LAUNCH.format(instance_type=instance_type, more=more)
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=("PT109",))))
    return [hit.finding.severity for hit in report.hits]


HIDDEN = {
    "variable": TORCH + 'os.environ["CUDA_VISIBLE_DEVICES"] = ""',
    "update": TORCH + 'os.environ.update({"CUDA_VISIBLE_DEVICES": "-1"})',
    "update by keyword": TORCH + 'os.environ.update(CUDA_VISIBLE_DEVICES="-1")',
    "setdefault": TORCH + 'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")',
    "in main": TORCH + 'def main():\n    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n\nmain()',
    "set_visible_devices": KERAS + 'tf.config.set_visible_devices([], "GPU")',
    "by keyword": KERAS + 'tf.config.experimental.set_visible_devices(devices=[], device_type="GPU")',
    "tf.device": KERAS + 'with tf.device("/CPU:0"):\n    model.fit([])',
    "strategy": KERAS + 'strategy = tf.distribute.OneDeviceStrategy("/cpu:0")',
    "no_cuda": 'from transformers import TrainingArguments\nTrainingArguments("out", no_cuda=True)',
    "use_cpu": 'from transformers import Seq2SeqTrainingArguments as A\nA(output_dir="out", use_cpu=True)',
    "Lightning": 'import lightning as L\nL.Trainer(accelerator="cpu")',
    "Accelerate": "from accelerate import Accelerator\nAccelerator(cpu=True)",
}


@pytest.mark.parametrize("script", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_hidden_gpu_of_a_job_is_an_error(script: str, tmp_path: Path) -> None:
    assert severities(tmp_path, script) == [Severity.ERROR]
    assert severities(tmp_path, script, "ml.m5.xlarge") == []


def test_a_default_that_hides_the_gpu_is_an_error_in_the_only_job(tmp_path: Path) -> None:
    script = TORCH + PARSER + 'parser.add_argument("--gpu", default="-1")\nargs = parser.parse_args()\n'
    hides = script + 'os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu'
    assert severities(tmp_path, hides) == [Severity.ERROR]
    assert severities(tmp_path, hides, more=", hyperparameters={'gpu': choose()}") == []
    alone = tmp_path / "alone"
    alone.mkdir()
    assert severities(alone, script + 'os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu', None) == []


def test_a_device_that_is_the_cpu_by_default_is_a_warning_unless_the_job_sets_it(tmp_path: Path) -> None:
    script = (
        TORCH
        + PARSER
        + 'parser.add_argument("--device", default="{}")\nargs = parser.parse_args()\nmodel.to(args.device)'
    )
    assert severities(tmp_path, script.format("cpu")) == [Severity.WARNING]
    assert severities(tmp_path, script.format("cuda")) == []
    for passed in ('{"device": "cuda"}', "settings()"):
        assert severities(tmp_path, script.format("cpu"), more=f", hyperparameters={passed}") == []


SOUND = {
    "one GPU": TORCH + 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"',
    "on request": TORCH + PARSER + 'parser.add_argument("--cpu", action="store_true")\n'
    'if parser.parse_args().cpu:\n    os.environ["CUDA_VISIBLE_DEVICES"] = ""',
    "of a child": TORCH + 'env = dict(os.environ)\nenv["CUDA_VISIBLE_DEVICES"] = ""',
    "default of a GPU": TORCH
    + PARSER
    + 'parser.add_argument("--gpu", default="0")\nargs = parser.parse_args()\n'
    'os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu',
    "data of a PyTorch script": 'import torch\nimport tensorflow as tf\ntf.config.set_visible_devices([], "GPU")',
    "data of a JAX script": 'import jax\nimport tensorflow as tf\ntf.config.experimental.set_visible_devices([], "GPU")',
    "some": KERAS
    + 'gpus = tf.config.list_physical_devices("GPU")\ntf.config.set_visible_devices(gpus[:1], "GPU")',
    "TPUs": KERAS + 'tf.config.set_visible_devices([], "TPU")',
    "input on the CPU": KERAS
    + 'with tf.device("/CPU:0"):\n    data = tf.data.Dataset.range(3)\nmodel.fit(data)',
    "an argument": "from transformers import TrainingArguments\nfrom settings import CPU\nTrainingArguments('out', use_cpu=CPU)",
    "use_cpu is false": "from transformers import TrainingArguments\nTrainingArguments('out', use_cpu=False)",
    "what is there": "import torch\nimport lightning as L\nL.Trainer(accelerator='gpu' if torch.cuda.is_available() else 'cpu')",
    "auto": "import lightning as L\nL.Trainer(accelerator='auto')",
    "not called": KERAS + 'def on_cpu():\n    tf.config.set_visible_devices([], "GPU")',
}


@pytest.mark.parametrize("script", SOUND.values(), ids=SOUND.keys())
def test_a_script_that_uses_its_gpu_is_not_reported(script: str, tmp_path: Path) -> None:
    assert severities(tmp_path, script) == []
