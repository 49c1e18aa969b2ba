"""What silences a rule about training loops, devices or TensorFlow does what it is there for."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files


def codes(folder: Path, files: dict[str, str], select: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=(select,))))
    return [hit.code for hit in report.hits]


LOOP = """
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(loader):
    loss = model(batch).mean()
    loss.backward({graph})
    {line}
    {update}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("for p in model.parameters(): p.grad = None", []),
        ("for p in model.parameters(): p.grad.zero_()", []),
        ("for p in model.parameters(): p.grad.data.zero_()", []),
        ("torch._foreach_zero_([p.grad for p in model.parameters()])", []),
        ("norm = sum(p.grad.norm() for p in model.parameters())", ["PF106"]),
        ("print(model.weight.grad)", ["PF106"]),
        ("assert model.weight.grad is not None", ["PF106"]),
    ],
)
def test_a_gradient_that_is_read_is_not_cleared(line: str, found: list[str], tmp_path: Path) -> None:
    script = LOOP.format(graph="", line=line, update="optimizer.step()")
    assert codes(tmp_path, {"train.py": script}, "PF106") == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("for p in model.parameters(): p.grad /= 4", []),
        ('criterion = torch.nn.CrossEntropyLoss(reduction="sum")', []),
        ("print(model.weight.grad.norm())", ["PF120"]),
        ('table.groupby("a").agg("sum")', ["PF120"]),
    ],
)
def test_only_what_divides_gradients_or_sums_the_loss_counts(
    line: str, found: list[str], tmp_path: Path
) -> None:
    update = "if (step + 1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()"
    assert codes(tmp_path, {"train.py": LOOP.format(graph="", line=line, update=update)}, "PF120") == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("g = torch.autograd.grad(loss, model.weight)", []),
        ("penalty(loss, create_graph=True)", []),
        ("penalty(loss, create_graph=False)", ["PF111"]),
    ],
)
def test_a_graph_is_retained_for_a_second_pass(line: str, found: list[str], tmp_path: Path) -> None:
    script = LOOP.format(graph="retain_graph=True", line=line, update="optimizer.step()")
    assert codes(tmp_path, {"train.py": script}, "PF111") == found


EVALUATION = """
import torch

def evaluate(model, batch):
    model.eval()
    {line}
    return model(batch)
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("batch.requires_grad = True", []),
        ("batch = torch.ones(4, requires_grad=True)", []),
        ("batch = torch.ones(4, requires_grad=False)", ["PF104"]),
        ("batch.requires_grad = False", ["PF104"]),
    ],
)
def test_requires_grad_false_needs_no_gradient(line: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": EVALUATION.format(line=line)}, "PF104") == found


HALF = """
import torch

model = torch.nn.Linear(4, 1).cuda()
{line}
x = torch.ones(4).cuda().half()
y = model(x)
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.autocast('cuda').__enter__()", []),
        ("load(torch_dtype=torch.float16)", []),
        ("torch.autocast('cuda', enabled=False).__enter__()", ["PF117"]),
        ("load(torch_dtype=torch.float32, fp16=False)", ["PF117"]),
    ],
)
def test_autocast_that_is_off_halves_nothing(line: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": HALF.format(line=line)}, "PF117") == found


MOVED = """
import torch

{line}
model = torch.nn.Linear(4, 1).to("cuda")
x = torch.ones(4)
y = model(x)
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('torch.set_default_device("cuda")', []),
        ("torch.set_default_device(device)", []),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", []),
        ('torch.set_default_device("cpu")', ["PT102"]),
        ("torch.set_default_tensor_type(torch.FloatTensor)", ["PT102"]),
    ],
)
def test_a_default_device_moves_inputs_if_it_is_a_gpu(line: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": MOVED.format(line=line)}, "PT102") == found


LOADS = """
# requires torch
import numpy
import torch

torch.serialization.add_safe_globals({allowed})
model = torch.load("m.pt", weights_only=True)
model.eval()
"""


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        ("[Net]", []),
        ("classes", []),
        ("[numpy.dtype]", ["PT123"]),
        ("[numpy.ndarray, numpy.dtype]", ["PT123"]),
    ],
)
def test_safe_globals_of_numpy_load_no_module(allowed: str, found: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": LOADS.format(allowed=allowed)}, "PT123") == found


ENDPOINT = """
from sagemaker.pytorch import PyTorchModel

PyTorchModel(
    model_data="s3://b/m.tar.gz", role="r", entry_point="serve.py", framework_version="2.6", py_version="py312"
).deploy(instance_type="ml.g5.xlarge", initial_instance_count=1)
"""
SERVES = """
import torch
from transformers import pipeline

def model_fn(model_dir):
    return {made}

def predict_fn(data, model):
    return model(data)
"""


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("pipeline('x', model_dir)", []),
        ("pipeline('x', model_dir, device=0)", []),
        ("pipeline('x', model_dir, device=-1)", ["PT115"]),
        ("pipeline('x', model_dir, device='cpu')", ["PT115"]),
    ],
)
def test_a_pipeline_on_the_cpu_chooses_no_gpu(made: str, found: list[str], tmp_path: Path) -> None:
    files = {"launch.py": ENDPOINT, "serve.py": SERVES.format(made=made)}
    assert codes(tmp_path, files, "PT115") == found


PIPELINE = """
import tensorflow as tf

options = tf.data.Options()
{option}
data = tf.data.Dataset.from_tensor_slices([1.0]).batch(4){step}
model = tf.keras.Sequential()
model.fit(data)
"""


@pytest.mark.parametrize(
    ("option", "step", "found"),
    [
        ("", ".apply(tf.data.experimental.prefetch_to_device('/gpu:0'))", []),
        ("", ".apply(prepare)", []),
        ("options.experimental_optimization.inject_prefetch = True", ".with_options(options)", []),
        ("", ".apply(tf.data.experimental.assert_cardinality(4))", ["IO103"]),
        ("options.deterministic = False", ".with_options(options)", ["IO103"]),
    ],
)
def test_a_step_of_another_kind_prefetches_nothing(
    option: str, step: str, found: list[str], tmp_path: Path
) -> None:
    assert codes(tmp_path, {"train.py": PIPELINE.format(option=option, step=step)}, "IO103") == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("new = tf.__version__ >= '2'", []),
        ("tf.compat.v1.disable_eager_execution()", []),
        ("print('TensorFlow', tf.__version__)", ["TF104"]),
    ],
)
def test_a_version_that_is_printed_distinguishes_nothing(line: str, found: list[str], tmp_path: Path) -> None:
    script = f"import tensorflow as tf\n{line}\nx = tf.placeholder(tf.float32)\n"
    assert codes(tmp_path, {"train.py": script}, "TF104") == found
