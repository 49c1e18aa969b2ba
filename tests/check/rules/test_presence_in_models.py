"""What silences a rule about a saved or served model is done to this model."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files


def codes(folder: Path, files: dict[str, str], select: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=(select,))))
    return [hit.code for hit in report.hits]


JOB = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", role="r", framework_version="2.6", py_version="py312", instance_count={hosts},
    instance_type="ml.g5.12xlarge"
).fit({{"train": "s3://b/train"}})
"""
SKEW = """
import onnxruntime
import torch
from sagemaker.pytorch import PyTorch, PyTorchModel

estimator = PyTorch(
    entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
    instance_type="ml.g5.xlarge"
)
estimator.fit()
{line}
PyTorchModel(
    model_data=estimator.model_data, role="r", entry_point="serve.py", framework_version="1.13", py_version="py39"
).deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
"""
CONVERTS = """
fetch(estimator.model_data)
torch.onnx.export(torch.load("model.pt"), (torch.ones(4),), "model.onnx")
put(estimator.model_data)
"""
SAVES_STATE = 'import torch\ntorch.save(torch.nn.Linear(4, 1).state_dict(), "/opt/ml/model/model.pt")\n'
LOADS_STATE = (
    "import torch\n\ndef model_fn(folder):\n"
    '    model = torch.nn.Linear(4, 1)\n    model.load_state_dict(torch.load(folder + "/model.pt"))\n    return model\n'
)


@pytest.mark.parametrize(
    ("line", "train", "serve", "found"),
    [
        ("", 'import torch\ntorch.jit.trace(model, x).save("/opt/ml/model/model.pt")', LOADS_STATE, []),
        ("", 'import torch\ntorch.jit.save(torch.jit.script(model), "m.pt")', LOADS_STATE, []),
        (
            "",
            (
                "import torch\n\ndef export(model):\n    scripted = torch.jit.script(model)\n    keep(scripted)\n\n"
                'def keep(scripted):\n    scripted.save("/opt/ml/model/model.pt")\n'
            ),
            LOADS_STATE,
            [],
        ),
        ("", 'import torch\ntorch.onnx.export(model, (x,), "/opt/ml/model/model.onnx")', LOADS_STATE, []),
        (
            "",
            SAVES_STATE,
            'import torch\n\ndef model_fn(folder):\n    return torch.jit.load(folder + "/m.pt")',
            [],
        ),
        (CONVERTS, SAVES_STATE, LOADS_STATE, []),
        ("", SAVES_STATE, LOADS_STATE, ["FW112"]),
        ("print(onnxruntime.get_device())", SAVES_STATE, LOADS_STATE, ["FW112"]),
        ("print(torch.jit.is_scripting(), estimator.model_data)", SAVES_STATE, LOADS_STATE, ["FW112"]),
        ('torch.onnx.export(other, (x,), "other.onnx")', SAVES_STATE, LOADS_STATE, ["FW112"]),
        ("", SAVES_STATE + "print(torch.jit.trace(model, x).graph)\n", LOADS_STATE, ["FW112"]),
    ],
)
def test_only_an_export_of_the_served_artifact_is_free_of_versions(
    line: str, train: str, serve: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": SKEW.format(line=line), "train.py": train, "serve.py": serve}
    assert codes(tmp_path, files, "FW112") == found


SERVED = """
import os
import subprocess
import torch
from sagemaker.pytorch import PyTorch, PyTorchModel

estimator = PyTorch(
    entry_point="train.py", role="r", framework_version="2.6", py_version="py312", instance_count=1,
    instance_type="ml.g5.xlarge", tags=[{{"Key": "format", "Value": "no torchscript"}}]
)
{line}
PyTorchModel(
    model_data={data}, role="r", entry_point="serve.py", framework_version="2.6", py_version="py312"
).deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
"""
PREDICTS = "import torch\n\ndef predict_fn(data, model):\n    with torch.inference_mode():\n        return model(data)\n"
SOME_DATA, OF_ESTIMATOR = '"s3://b/model.tar.gz"', "estimator.model_data"


@pytest.mark.parametrize(
    ("line", "data", "train", "serve", "found"),
    [
        ("", '"s3://b/torchscript/model.tar.gz"', "", PREDICTS, []),
        ('ADDRESS = "s3://b/torchscript.tar.gz"', "ADDRESS", "", PREDICTS, []),
        ('data = session.upload_data("m.tar.gz", key_prefix="torchscript")', "data", "", PREDICTS, []),
        ('subprocess.run(["python", "to_torchscript.py"])', SOME_DATA, "", PREDICTS, []),
        ('torch.jit.trace(model, x).save("model.pt")', SOME_DATA, "", PREDICTS, []),
        ("", OF_ESTIMATOR, 'import torch\ntorch.jit.save(torch.jit.script(m), "m.pt")', PREDICTS, []),
        ("", SOME_DATA, "", PREDICTS + '\n\ndef load():\n    return torch.jit.load("model.pt")\n', []),
        ("", SOME_DATA, "", PREDICTS + "\nfrom ours import model_fn\n", []),
        ("", SOME_DATA, "", PREDICTS, ["SM110"]),
        ("", OF_ESTIMATOR, SAVES_STATE, PREDICTS, ["SM110"]),
        ("", SOME_DATA, "", PREDICTS + "\n@torch.jit.script\ndef scale(x):\n    return x * 2\n", ["SM110"]),
        ("", SOME_DATA, "", PREDICTS + "\nprint(torch.jit.is_scripting())\n", ["SM110"]),
        ("print(torch.jit.script(model).graph)", SOME_DATA, "", PREDICTS, ["SM110"]),
        ('name = "not torchscript"', SOME_DATA, "", PREDICTS, ["SM110"]),
    ],
)
def test_only_an_artifact_in_torchscript_is_loaded_without_model_fn(
    line: str, data: str, train: str, serve: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": SERVED.format(line=line, data=data), "train.py": train, "serve.py": serve}
    assert codes(tmp_path, files, "SM110") == found


MEASURED = """
import cProfile
import timeit
import torch
import torch.utils.benchmark as benchmark
from torch.profiler import ProfilerActivity, profile, record_function

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
profiler = cProfile.Profile()

def train(steps=10):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(8).cuda()).sum().backward()
        optimizer.step()

def main():
    train()

{run}
"""


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ("with profile(activities=[ProfilerActivity.CPU]) as prof:\n    train()", []),
        ("prof = profile()\nwith prof:\n    main()", []),
        ("train(3)\nwith profile():\n    main()", []),
        ("prof = profile()\nprof.start()\nmain()\nprof.stop()", []),
        ("profiler.enable()\nmain()\nprofiler.disable()", []),
        ("profiler.runcall(main)", []),
        ('cProfile.run("main()")', []),
        ("print(timeit.timeit(lambda: train(1), number=5))", []),
        ("print(timeit.timeit(main, number=5))", []),
        ('print(benchmark.Timer(stmt="train(1)", globals=globals()).timeit(5))', []),
        ("main()", ["SM102"]),
        ("start = timeit.default_timer()\nmain()\nprint(timeit.default_timer() - start)", ["SM102"]),
        ("with profile():\n    model(torch.ones(8).cuda())\nmain()", ["SM102"]),
        ("profiler.enable()\nmodel(torch.ones(8).cuda())\nprofiler.disable()\nmain()", ["SM102"]),
        ('with record_function("training"):\n    main()', ["SM102"]),
        ("print(timeit.timeit(lambda: model(torch.ones(8).cuda()), number=5))\nmain()", ["SM102"]),
    ],
)
def test_training_is_a_measurement_if_a_profiler_or_timer_runs_around_it(
    run: str, found: list[str], tmp_path: Path
) -> None:
    files = {"launch.py": JOB.format(hosts=1), "train.py": MEASURED.format(run=run)}
    assert codes(tmp_path, files, "SM102") == found


STARRED = """
import torch
{star}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)

model = Net()

def evaluate(model, loader):
    with torch.no_grad():
        for x in loader:
            print(model(x))

{switch}
evaluate(model, [])
"""


@pytest.mark.parametrize(
    ("star", "switch", "helpers", "found"),
    [
        ("from unknown import *", "", "", []),
        ("from helpers import *", "", "from unknown import *", []),
        ("from helpers import *", "", "from accelerate import Accelerator", []),
        ("from helpers import *", "freeze(model)", "def freeze(net):\n    net.eval()\n", []),
        ("from helpers import *", "model.eval()", "", []),
        ("", "", "", ["PF105"]),
        ("from math import *", "", "", ["PF105"]),
        ("from torch.nn import *", "", "", ["PF105"]),
        ("from helpers import *", "", "from math import *\n\nBATCH = 4\n", ["PF105"]),
    ],
)
def test_a_star_import_of_a_known_module_hides_no_switch(
    star: str, switch: str, helpers: str, found: list[str], tmp_path: Path
) -> None:
    files = {"train.py": STARRED.format(star=star, switch=switch), "helpers.py": helpers}
    assert codes(tmp_path, files, "PF105") == found
