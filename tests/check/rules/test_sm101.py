"""SM101 on the ways in which scripts name the folder of a model: only a use of it keeps the model."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.g5.xlarge"{more}).fit()
"""
PARSER = """
import argparse
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR"))
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
model = torch.nn.Linear(1, 1)
"""


def lines(folder: Path, script: str, more: str = "", **others: str) -> list[int | None]:
    files = {"launch.py": LAUNCH.format(more=more), "train.py": script}
    files |= {f"{name}.py": text for name, text in others.items()}
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=("SM101",))))
    return [hit.finding.location.line for hit in report.hits if hit.finding.location is not None]


USED = {
    "in the save": 'torch.save(model.state_dict(), os.path.join(args.model_dir, "model.pth"))',
    "with a slash": 'torch.save(model, args.model_dir + "/model.pth")',
    "f-string": 'torch.save(model, f"{args.model_dir}/model.pth")',
    "through a variable": 'out = args.model_dir\npath = os.path.join(out, "m.pth")\ntorch.save(model, path)',
    "path": 'from pathlib import Path\nfolder = Path(args.model_dir)\ntorch.save(model, folder / "m.pth")',
    "function's parameter": "def write(net, where):\n    torch.save(net, where + '/m.pth')\n\nwrite(model, args.model_dir)",
    "all arguments": "def finish(opt):\n    torch.save(model, os.path.join(opt.model_dir, 'm.pth'))\n\nfinish(args)",
    "vars": "def finish(model_dir, epochs):\n    torch.save(model, model_dir + '/m.pth')\n\nfinish(**vars(args))",
    "dataclass": (
        "from dataclasses import dataclass\n\n@dataclass\nclass Config:\n    epochs: int\n    folder: str\n\n"
        "config = Config(args.epochs, args.model_dir)\ntorch.save(model, os.path.join(config.folder, 'm.pth'))"
    ),
    "dataclass default": (
        "from dataclasses import dataclass, field\n\n@dataclass\nclass Config:\n"
        "    folder: str = field(default_factory=lambda: os.environ['SM_MODEL_DIR'])\n\n"
        "config = Config()\ntorch.save(model, os.path.join(config.folder, 'm.pth'))"
    ),
    "attribute": (
        "class Saver:\n    def __init__(self, root):\n        self.root = root\n\n    def save(self, net):\n"
        "        torch.save(net, self.root + '/m.pth')\n\nSaver(args.model_dir).save(model)"
    ),
    "mapping": "config = {'out': args.model_dir}\ntorch.save(model, os.path.join(config['out'], 'm.pth'))",
    "copied": "import shutil\nshutil.copy('model.pth', args.model_dir)",
    "folder copied": "import shutil\nshutil.copytree('.', args.model_dir)",
    "shell": "import subprocess\nsubprocess.run(['cp', 'model.pth', args.model_dir], check=True)",
    "moved": "import pathlib\npathlib.Path('model.pth').rename(pathlib.Path(args.model_dir) / 'model.pth')",
    "changed directory": "os.chdir(args.model_dir)",
    "binary file": "import pickle\nwith open(os.path.join(args.model_dir, 'm.pkl'), 'wb') as file:\n    pickle.dump(model, file)",
    "unknown function": "import ourlib\nourlib.finish(model, args.model_dir)",
    "unknown function with all arguments": "import ourlib\nourlib.finish(model, args)",
    "uploaded": "import boto3\nboto3.client('s3').upload_file('model.pth', 'bucket', 'model.pth')",
    "global": "FOLDER = args.model_dir\n\ndef finish():\n    torch.save(model, FOLDER + '/m.pth')\n\nfinish()",
    "tuple": "for folder in (args.model_dir, '/tmp/x'):\n    torch.save(model, folder + '/m.pth')",
    "returned": "def folder():\n    return args.model_dir\n\ntorch.save(model, os.path.join(folder(), 'm.pth'))",
    "augmented": "path = args.model_dir\npath += '/m.pth'\ntorch.save(model, path)",
}


@pytest.mark.parametrize("use", USED.values(), ids=USED.keys())
def test_a_use_of_the_folder_keeps_the_model(use: str, tmp_path: Path) -> None:
    assert lines(tmp_path, f'{PARSER}torch.save(model.state_dict(), "model.pth")\n{use}\n') == []


UNUSED = {
    "declared": "",
    "printed": 'print("saved to", args.model_dir)',
    "logged": "import logging\nlogging.info('args %s', vars(args))",
    "all printed": "print(args)",
    "created": "os.makedirs(args.model_dir, exist_ok=True)",
    "tested": "if os.path.exists(args.model_dir):\n    print('there')",
    "metrics": "import json\nwith open(os.path.join(args.model_dir, 'metrics.json'), 'w') as file:\n    json.dump({}, file)",
    "figure": "import matplotlib.pyplot as plt\nplt.savefig(os.path.join(args.model_dir, 'loss.png'))",
    "handler copied": "import shutil\nshutil.copy('inference.py', os.path.join(args.model_dir, 'code'))",
    "resumed": "model.load_state_dict(torch.load(os.path.join(args.model_dir, 'old.pth')))",
    "other arguments read": "def finish(opt):\n    print(opt.epochs)\n\nfinish(args)",
    "never read variable": "out = args.model_dir",
    "unused parameter": "def finish(net, model_dir):\n    return net\n\nfinish(model, args.model_dir)",
    "packages installed": "import subprocess\nsubprocess.check_call(['pip', 'install', 'timm'])",
    "tensor copied": "first = model.weight.copy_(model.weight)",
    "data downloaded": "import boto3\nboto3.client('s3').download_file('bucket', 'key', 'data.csv')",
    "data read": "import pandas\npandas.read_csv('s3://bucket/data.csv')",
}


@pytest.mark.parametrize("use", UNUSED.values(), ids=UNUSED.keys())
def test_a_declared_folder_does_not_keep_a_model_that_is_saved_elsewhere(use: str, tmp_path: Path) -> None:
    first = len(PARSER.splitlines()) + 1
    assert lines(tmp_path, f'{PARSER}torch.save(model.state_dict(), "model.pth")\n{use}\n') == [first]


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/model.pth",
        "/opt/ml/model.pt",
        "/opt/ml/model.tar.gz",
        "/opt/ml/output/model.pt",
        "/opt/ml/models/m.pt",
        "/opt/ml/code/m.pt",
        "/opt/ml/checkpoints/m.pt",
        "/opt/ml/input/data/training/m.pt",
        "out/m.pt",
        "./m.pt",
        "../m.pt",
        "m.pt",
    ],
)
def test_a_path_outside_the_kept_folders_is_lost(path: str, tmp_path: Path) -> None:
    assert lines(tmp_path, f'import torch\ntorch.save({{}}, "{path}")\n') == [2]


@pytest.mark.parametrize(
    "path",
    [
        "/opt/ml/model/m.pt",
        "/opt/ml/model",
        "/opt/ml/output/data/m.pt",
        "/fsx/team/m.pt",
        "/mnt/efs/m.pt",
        "s3://bucket/m.pt",
    ],
)
def test_a_kept_or_mounted_folder_is_not_reported(path: str, tmp_path: Path) -> None:
    assert lines(tmp_path, f'import torch\ntorch.save({{}}, "{path}")\n') == []


def test_a_checkpoint_location_keeps_the_checkpoint_folder(tmp_path: Path) -> None:
    script = 'import torch\ntorch.save({}, "/opt/ml/checkpoints/m.pt")\n'
    assert lines(tmp_path, script, ', checkpoint_s3_uri="s3://b/c"') == []


def test_a_checkpoint_location_with_its_own_folder_keeps_that_folder(tmp_path: Path) -> None:
    script = 'import torch\ntorch.save({}, "/opt/ml/saved/m.pt")\n'
    more = ', checkpoint_s3_uri="s3://b/c", checkpoint_local_path="/opt/ml/saved"'
    assert lines(tmp_path, script, more) == []
    assert lines(tmp_path, script, ', checkpoint_s3_uri="s3://b/c"') == [2]


SAVES = {
    "save_pretrained": "from transformers import AutoModel\nm = AutoModel.from_pretrained('x')\nm.save_pretrained('./final')",
    "Lightning": "import lightning as L\nt = L.Trainer()\nt.save_checkpoint('m.ckpt')",
    "Trainer": "from transformers import Trainer\nt = Trainer()\nt.save_model('final')",
    "Trainer's output_dir": (
        "from transformers import Trainer, TrainingArguments\n"
        "t = Trainer(model=None, args=TrainingArguments(output_dir='results'))\nt.save_model()"
    ),
    "Keras": "import keras\nm = keras.Sequential([])\nm.save('m.keras')",
    "Keras's function": "import keras\nm = keras.Sequential([])\nkeras.models.save_model(m, 'm.keras')",
    "saved_model": "import tensorflow as tf\nm = tf.keras.Sequential([])\ntf.saved_model.save(m, 'out/1')",
    "joblib": "import joblib\nfrom sklearn.svm import SVC\njoblib.dump(SVC().fit([], []), 'm.joblib')",
    "pickle": "import pickle\nmodel = make()\nwith open('m.pkl', 'wb') as file:\n    pickle.dump(model, file)",
    "variables": "import torch\nstate = {'a': 1}\npath = 'm.pt'\ntorch.save(state, path)",
    "joined": "import os, torch\nout = 'out'\ntorch.save({}, os.path.join(out, f'm-{out}.pt'))",
    "f-string": "import torch\nfor epoch in range(3):\n    pass\ntorch.save({}, f'm-{epoch}.pt')",
    "path": "import torch\nfrom pathlib import Path\n\ntorch.save({}, Path('/tmp') / 'm.pt')",
    "torch.jit": "import torch\nm = torch.nn.Linear(1, 1)\n\ntorch.jit.script(m).save('m.pt')",
    "safetensors": "import torch\nfrom safetensors.torch import save_file\n\nsave_file({}, 'm.safetensors')",
}


@pytest.mark.parametrize("script", SAVES.values(), ids=SAVES.keys())
def test_every_form_of_saving_is_reported(script: str, tmp_path: Path) -> None:
    assert len(lines(tmp_path, script + "\n")) == 1


NO_MODELS = {
    "tokenizer": "from transformers import AutoTokenizer\nt = AutoTokenizer.from_pretrained('x')\nt.save_pretrained('./tok')",
    "metrics": "import joblib\njoblib.dump({'loss': 1}, 'metrics.joblib')",
    "scaler": "import joblib\nfrom sklearn.preprocessing import StandardScaler\njoblib.dump(StandardScaler(), 's.joblib')",
    "memory": "import io, torch\nbuffer = io.BytesIO()\ntorch.save({}, buffer)",
    "unknown": "import torch\nfrom config import PATH\ntorch.save({}, PATH)",
    "image": "from PIL import Image\nImage.new('RGB', (1, 1)).save('a.png')",
}


@pytest.mark.parametrize("script", NO_MODELS.values(), ids=NO_MODELS.keys())
def test_what_is_no_model_or_has_no_known_path_is_not_reported(script: str, tmp_path: Path) -> None:
    assert lines(tmp_path, script + "\n") == []


def test_the_path_of_a_helper_is_the_one_that_its_callers_pass(tmp_path: Path) -> None:
    helper = "import torch\n\n\ndef write(net, path):\n    torch.save(net, path)\n"
    write_files(
        tmp_path,
        {
            "launch.py": LAUNCH.format(more=""),
            "helper.py": helper,
            "train.py": 'import torch\nfrom helper import write\n\nwrite(torch.nn.Linear(1, 1), "m.pth")\n',
        },
    )
    report = check_paths([str(tmp_path)], CheckOptions(Selection(select=("SM101",))))
    found = [
        (Path(str(hit.finding.location.file)).name, hit.finding.location.line)
        for hit in report.hits
        if hit.finding.location
    ]
    assert found == [("train.py", 4)]


def test_a_folder_in_another_module_of_the_script_is_followed(tmp_path: Path) -> None:
    config = 'import os\n\nFOLDER = os.environ["SM_MODEL_DIR"]\n'
    script = "import torch\nimport config\ntorch.save({}, 'best.pt')\n"
    assert lines(tmp_path, script, config=config) == [3]
    used = script + "torch.save({}, config.FOLDER + '/m.pt')\n"
    assert lines(tmp_path, used, config=config) == []
    imported = "import torch\nfrom config import FOLDER\ntorch.save({}, 'best.pt')\ntorch.save({}, FOLDER + '/m.pt')\n"
    assert lines(tmp_path, imported, config=config) == []
