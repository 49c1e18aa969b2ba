"""PT101 and PT115: a device that is only declared moves nothing; near misses are silent."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.xlarge").fit()
"""
TRAIN = """
import torch
from torch.utils.data import DataLoader

{device}
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([])
{setup}
for x, y in loader:
    optimizer.zero_grad()
    {move}
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
DEPLOY = """
from sagemaker.pytorch import PyTorchModel

PyTorchModel(model_data="s3://b/m.tar.gz", role="r", entry_point="inference.py", framework_version="2.3",
             py_version="py311").deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
"""
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'


def codes(folder: Path, files: dict[str, str], code: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=(code,))))
    return [hit.code for hit in report.hits]


@pytest.mark.parametrize(
    ("device", "setup", "move"),
    [
        (DEVICE, "", "pass"),
        ('device = "cuda"', "", "pass"),
        (DEVICE, "print('Using', device)", "pass"),
        (DEVICE, "import logging\nlogging.info(f'device {device}')", "pass"),
        (DEVICE, "if device.type == 'cuda':\n    torch.backends.cudnn.benchmark = True", "pass"),
        (DEVICE, "model.load_state_dict(torch.load('w.pt', map_location=device))", "pass"),
        (
            DEVICE,
            "state = torch.load('w.pt', map_location=device)\nmodel.load_state_dict(state['model'])",
            "pass",
        ),
        ("torch.cuda.set_device(0)", "", "pass"),
        ("torch.cuda.manual_seed_all(1)", "", "pass"),
        ('device = torch.device("cpu")', "model.to(device)", "x, y = x.to(device), y.to(device)"),
        ("", "model.to('cpu')", "pass"),
        ("", "model.to(torch.float32)", "pass"),
        (DEVICE, "def info(where):\n    print(where)\n\ninfo(device)", "pass"),
        ("use_amp = True", "scaler = torch.cuda.amp.GradScaler()", "pass"),
    ],
)
def test_a_device_that_nothing_is_moved_to_is_reported(
    device: str, setup: str, move: str, tmp_path: Path
) -> None:
    script = TRAIN.format(device=device, setup=setup, move=move)
    assert codes(tmp_path, {"launch.py": LAUNCH, "train.py": script}, "PT101") == ["PT101"]


@pytest.mark.parametrize(
    ("device", "setup", "move"),
    [
        (DEVICE, "model.to(device)", "pass"),
        (DEVICE, "model = model.to(device=device)", "pass"),
        (DEVICE, "", "x = x.to(device)"),
        ("", "model.cuda()", "pass"),
        (DEVICE, "torch.set_default_device(device)", "pass"),
        (DEVICE, "def place(net, where):\n    return net.to(where)\n\nmodel = place(model, device)", "pass"),
        (DEVICE, "kwargs = {'device': device}\nmodel.to(**kwargs)", "pass"),
        (DEVICE, "model = torch.load('m.pt', map_location=device)", "pass"),
        (
            DEVICE,
            "class Config:\n    pass\n\nconfig = Config()\nconfig.where = device\nmodel.to(config.where)",
            "pass",
        ),
        (DEVICE, "weights = torch.ones(3, device=device)", "pass"),
        (DEVICE, "torch.set_default_tensor_type('torch.cuda.FloatTensor')", "pass"),
        ("import argparse\nargs = argparse.ArgumentParser().parse_args()", "model.to(args.device)", "pass"),
        ("from settings import device", "model.to(device)", "pass"),
        (DEVICE, "with torch.device(device):\n    model = torch.nn.Linear(8, 1)", "pass"),
    ],
)
def test_a_device_that_something_is_moved_to_is_not_reported(
    device: str, setup: str, move: str, tmp_path: Path
) -> None:
    script = TRAIN.format(device=device, setup=setup, move=move)
    assert codes(tmp_path, {"launch.py": LAUNCH, "train.py": script}, "PT101") == []


HANDLER = """
import torch

def model_fn(model_dir):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    {load}

def predict_fn(data, model):
    {predict}
"""
LOADED = "model = torch.nn.Linear(8, 3)\n    model.load_state_dict(torch.load('m.pth', map_location=device))\n    return model"
FOLLOWS = "device = next(model.parameters()).device\n    return model(data.to(device))"


def test_weights_with_a_map_location_do_not_move_the_model(tmp_path: Path) -> None:
    handler = HANDLER.format(load=LOADED, predict=FOLLOWS)
    assert codes(tmp_path, {"deploy.py": DEPLOY, "inference.py": handler}, "PT115") == ["PT115"]


@pytest.mark.parametrize(
    ("load", "predict"),
    [
        (LOADED + ".to(device)", FOLLOWS),
        (LOADED, "model.cuda()\n    return model(data.cuda())"),
        ("return torch.jit.load('m.pt', map_location=device)", FOLLOWS),
        ("return torch.load('m.pt', map_location=device)", FOLLOWS),
    ],
)
def test_a_model_that_is_moved_or_loaded_onto_the_gpu_is_not_reported(
    load: str, predict: str, tmp_path: Path
) -> None:
    handler = HANDLER.format(load=load, predict=predict)
    assert codes(tmp_path, {"deploy.py": DEPLOY, "inference.py": handler}, "PT115") == []
