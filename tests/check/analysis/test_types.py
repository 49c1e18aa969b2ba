"""What kind of thing an expression is, and where it certainly is."""

import pytest

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.types import InferredType, TypeKind, type_of
from support.check_helpers import module_of


def inferred(text: str) -> InferredType:
    """What the argument of `use(...)` is."""
    module = module_of(text)
    return type_of(module, calls_named(module, "use")[0].node.args[0])


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("import torch\nuse(torch.zeros(1))", TypeKind.TENSOR),
        ("import torch\nx = torch.zeros(1).view(-1) * 2\nuse(x)", TypeKind.TENSOR),
        ("import torch\nuse(torch.nn.Linear(1, 1))", TypeKind.MODULE),
        ("from torch import nn\nclass Net(nn.Module): ...\nmodel = Net()\nuse(model)", TypeKind.MODULE),
        ("from torch import nn\ndef build():\n    return nn.Linear(1, 1)\nuse(build())", TypeKind.MODULE),
        ("from torch.optim import Adam\nuse(Adam([]))", TypeKind.OPTIMIZER),
        ("from torch.utils.data import DataLoader\nuse(DataLoader([]))", TypeKind.LOADER),
        ("from torch.utils.data import DataLoader\nfor b in DataLoader([]):\n    use(b)", TypeKind.BATCH),
        ("from torch.utils.data import DataLoader\nfor x, y in DataLoader([]):\n    use(x)", TypeKind.TENSOR),
        (
            "from torch.utils.data import DataLoader\nfor i, (x, y) in enumerate(DataLoader([])):\n    use(y)",
            TypeKind.TENSOR,
        ),
        (
            "from torch.utils.data import DataLoader\nfor i, b in enumerate(DataLoader([])):\n    use(b)",
            TypeKind.BATCH,
        ),
        ("from torch.utils.data import DataLoader\nfor i, b in enumerate(DataLoader([])):\n    use(i)", None),
        (
            "import tensorflow as tf\nuse(tf.data.Dataset.from_tensor_slices([]).batch(2))",
            TypeKind.TF_DATASET,
        ),
        ("from tensorflow import keras\nuse(keras.Sequential())", TypeKind.KERAS_MODEL),
        ("import tensorflow as tf\nuse(tf.distribute.MirroredStrategy())", TypeKind.STRATEGY),
        ("from sagemaker.pytorch import PyTorch\ne = PyTorch()\nuse(e)", TypeKind.ESTIMATOR),
        ("from sagemaker.pytorch import PyTorch\ne = PyTorch()\np = e.deploy()\nuse(p)", TypeKind.PREDICTOR),
        ("import boto3\nuse(boto3.client('sagemaker'))", TypeKind.CLIENT),
        ("import torch\nuse(torch.load('f'))", None),
        ("from datasets import load_dataset\nuse(load_dataset('x').map(f))", None),
        ("use(unknown)", None),
    ],
)
def test_things_are_followed_to_where_they_were_made(text: str, tag: TypeKind | None) -> None:
    assert inferred(text).kind is tag


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("import torch\nm = torch.nn.Linear(1, 1)\nuse(m)", "cpu"),
        ("import torch\nm = torch.nn.Linear(1, 1).to(device)\nuse(m)", "gpu"),
        ("import torch\nm = torch.nn.Linear(1, 1)\nm.cuda()\nuse(m)", "gpu"),
        ("import torch\nm = torch.nn.Linear(1, 1).to('cpu')\nuse(m)", "cpu"),
        ("import torch\nm = torch.nn.Linear(1, 1).to(torch.float16)\nuse(m)", "cpu"),
        ("import torch\nx = torch.zeros(1)\nx = x.cuda()\nuse(x)", "gpu"),
        ("import torch\nx = torch.zeros(1)\nif c():\n    x = x.cuda()\nuse(x)", None),
        ("import torch\nx = torch.zeros(1, device='cuda')\nuse(x)", "gpu"),
        ("import torch\nx = torch.zeros(1).cuda().cpu()\nuse(x)", "cpu"),
    ],
)
def test_devices_are_followed_too(text: str, device: str | None) -> None:
    assert inferred(text).device == device


def test_what_every_call_hands_over_is_what_a_parameter_is() -> None:
    text = "import torch\ndef f(model):\n    use(model)\nf(torch.nn.Linear(1, 1))\nf(model=torch.nn.Linear(1, 2))"
    assert inferred(text).kind is TypeKind.MODULE


def test_callers_that_disagree_leave_a_parameter_unknown() -> None:
    text = "import torch\ndef f(model):\n    use(model)\nf(torch.nn.Linear(1, 1))\nf(other())"
    assert inferred(text).kind is None
