"""What one function, job or project file does never silences a rule for another."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

HANDLER = """
import torch

def model_fn(model_dir):
    model = torch.nn.Linear(4, 2)
    model.load_state_dict(torch.load(model_dir + "/model.pth"))
    return model

def predict_fn(data, model):
    return model(data)
"""
LAUNCHER = """
from sagemaker.pytorch import PyTorch

estimator = PyTorch(entry_point="train.py", source_dir="{folder}", framework_version="2.1", py_version="py310",
                    role="r", instance_count=1, instance_type="ml.g5.xlarge")
estimator.fit()
estimator.deploy(initial_instance_count=1, instance_type="ml.m5.xlarge", entry_point="inference.py",
                 source_dir="{handler}")
"""
SAVES_FROM_CPU = """
import torch

model = torch.nn.Linear(4, 2).cuda()
torch.save(model.cpu().state_dict(), "/opt/ml/model/model.pth")
"""


def codes(folder: Path, files: dict[str, str], *select: str) -> list[tuple[str, int | None]]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=select)))
    return [(hit.code, hit.finding.location.line) for hit in report.hits if hit.finding.location is not None]


def test_a_move_to_the_cpu_in_another_script_does_not_silence_pt106(tmp_path: Path) -> None:
    other = "def show(tensor):\n    return tensor.cpu()\n"
    assert codes(tmp_path, {"inference.py": HANDLER, "plot.py": other}, "PT106") == [("PT106", 6)]


def test_a_move_to_the_cpu_that_is_not_saved_does_not_silence_pt106(tmp_path: Path) -> None:
    handler = HANDLER.replace("return model(data)", "return model(data).cpu()")
    assert codes(tmp_path, {"inference.py": handler}, "PT106") == [("PT106", 6)]


@pytest.mark.parametrize(("trained", "expected"), [("own", []), ("other", [("PT106", 6)])])
def test_only_the_job_that_trains_the_model_can_save_it_from_the_cpu(
    trained: str, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    files = {
        "launch.py": LAUNCHER.format(folder="own", handler="serve"),
        "serve/inference.py": HANDLER,
        "own/train.py": "import torch\n",
        "other/train.py": "import torch\n",
    }
    files[f"{trained}/train.py"] = SAVES_FROM_CPU
    assert codes(tmp_path, files, "PT106") == expected


def test_deleting_one_endpoint_does_not_silence_co101_for_another(tmp_path: Path) -> None:
    script = """
from sagemaker.pytorch import PyTorchModel

model = PyTorchModel(entry_point="inference.py", model_data="s3://b/m.tar.gz", role="r", framework_version="2.1", py_version="py310")
first = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
second = model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
first.predict([1])
first.delete_endpoint()
"""
    assert codes(tmp_path, {"deploy.py": script}, "CO101") == [("CO101", 6)]


def test_sharded_data_of_one_job_does_not_silence_ds102_for_another(tmp_path: Path) -> None:
    launcher = """
from sagemaker.inputs import TrainingInput
from sagemaker.pytorch import PyTorch

options = dict(entry_point="train.py", framework_version="2.1", py_version="py310", role="r", instance_type="ml.g5.xlarge")
first = PyTorch(instance_count=2, **options)
first.fit({"train": TrainingInput("s3://b/d", distribution="ShardedByS3Key")})
second = PyTorch(instance_count=2, **options)
second.fit({"train": TrainingInput("s3://b/d")})
"""
    train = "import torch\n\nfor x in range(3):\n    torch.nn.Linear(1, 1)(x).sum().backward()\n"
    assert codes(tmp_path, {"launch.py": launcher, "train.py": train}, "DS102") == [("DS102", 8)]


def test_evaluation_mode_of_another_model_does_not_silence_pf105(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

def evaluate(loader):
    model = Net()
    return [model(x) for x in loader]

def export(other):
    other.eval()
    return torch.jit.trace(other, torch.zeros(1, 4))
"""
    assert codes(tmp_path, {"train.py": script}, "PF105") == [("PF105", 12)]


def test_a_checkpoint_location_of_another_estimator_does_not_silence_co103(tmp_path: Path) -> None:
    script = """
from sagemaker.pytorch import PyTorch

options = dict(entry_point="train.py", framework_version="2.1", py_version="py310", role="r", instance_count=1,
               instance_type="ml.g5.xlarge", use_spot_instances=True, max_wait=90000, max_run=86400)
first = PyTorch(checkpoint_s3_uri="s3://b/c", **options)
second = PyTorch(**options)
"""
    assert [code for code, _ in codes(tmp_path, {"launch.py": script}, "CO103")] == ["CO103"]


NET = """
import torch
from torch import nn
import helpers

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

def evaluate(loader):
    model = Net()
    helpers.{called}(model)
    return [model(x) for x in loader]
"""


@pytest.mark.parametrize(("called", "expected"), [("prepare", []), ("log", [("PF105", 14)])])
def test_a_helper_in_another_file_silences_pf105_only_where_it_is_called(
    called: str, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    helpers = "def prepare(model):\n    model.eval()\n\ndef log(model):\n    print(model)\n"
    files = {"train.py": NET.format(called=called), "helpers.py": helpers}
    assert codes(tmp_path, files, "PF105") == expected
