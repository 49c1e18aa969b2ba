"""PT102: tensors that are followed through generators, collate functions, closures, tokenizers, and into `forward`."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

HEAD = """
import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForMaskedLM, AutoTokenizer

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


def codes(folder: Path, script: str) -> list[str]:
    write_files(folder, {"train.py": HEAD + script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("PT102", "PT112"))))
    return [hit.code for hit in report.hits]


GENERATOR = """
def batches(data, size):
    for start in range(0, len(data), size):
        yield torch.from_numpy(data[start : start + size]), torch.ones(size){move}

model = nn.Linear(8, 3).to(device)
def train(data):
    for x, weight in batches(data, 8):
        model({given})
"""
DETECTOR = """
model = torchvision.models.detection.fasterrcnn_resnet50_fpn()
model.to(device)
data = torchvision.datasets.CocoDetection("images", "labels.json")
for images, targets in DataLoader(data, collate_fn=lambda items: tuple(zip(*items))):
    images = [image.to(device) for image in images]
    {targets}
    losses = model(images, targets)
"""
CLOSURE = """
def make_step(model, loss_of):
    def step(batch):
        x, y = {batch}
        return loss_of(model(x.to(device)), y)

    return step

step = make_step(nn.Linear(8, 3).to(device), nn.CrossEntropyLoss())
for batch in DataLoader([]):
    step(batch)
"""
TOKENIZER = """
def load():
    model = AutoModelForMaskedLM.from_pretrained("bert-base-uncased").to(device)
    return {{"model": model, "tokenizer": AutoTokenizer.from_pretrained("bert-base-uncased")}}

def score(loaded, text):
    model, tokenizer = loaded["model"], loaded["tokenizer"]
    inputs = tokenizer(text, return_tensors="pt")
    {move}
    return model(**inputs)

score(load(), "text")
"""
FORWARD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        table = torch.zeros(1, 64, 8)
        {store}

    def start(self, size{parameter}):
        return torch.zeros(1, size, 8{device}), torch.zeros(1, size, 8{device})

    def forward(self, x):
        h, c = self.start(x.size(1){given})
        output, _ = self.lstm(x, (h, c.detach()))
        return output + self.table[:, : x.size(0)]

model = Net().to(device)
"""
ON_CPU = {"store": 'self.register_buffer("table", table)', "parameter": "", "device": "", "given": ""}
ON_GPU = {
    **ON_CPU,
    "parameter": ", device",
    "device": ", device=device",
    "given": ", x.device",
}
LOSS = """
class Dice(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, scores, labels):
        return 1 - (scores * labels).sum() / (scores.sum() + self.smooth)

class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Dice(), {part}])

    def forward(self, scores, labels):
        return sum(part(scores, labels) for part in self.parts)

model = nn.Linear(8, 3).to(device)
both = Both()
for x, y in DataLoader([]):
    both(model(x.to(device)), y.to(device))
"""
STATE_IN_LOOP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        h = torch.zeros(1, 4, 8)
        while x.sum():
            h = h.view(1, -1, 8)
            x, h = self.gru(x, h)
        return x

model = Net().to(device)
"""
WEIGHTED = """
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss(weight=torch.ones(3).to(device))
for x, y in DataLoader([]):
    criterion(model(x.to(device)), y.to(device))
"""
HANDLER = """
def model_fn(folder):
    return nn.Linear(8, 3).to(device)

def predict_fn(data, model):
    return model(torch.tensor(data).to(device))

def output_fn(scores, accept):
    return scores{move}.numpy().tobytes()
"""


@pytest.mark.parametrize(
    "script",
    [
        GENERATOR.format(move="", given="x"),
        DETECTOR.format(targets=""),
        DETECTOR.format(targets="targets = [{k: v for k, v in t.items()} for t in targets]"),
        DETECTOR.format(targets="targets = list(targets)"),
        CLOSURE.format(batch="batch"),
        LOSS.format(part="nn.Bilinear(3, 3, 1)"),
        TOKENIZER.format(move=""),
        FORWARD.format(**ON_CPU),
        FORWARD.format(**ON_GPU | {"store": "self.table = table"}),
    ],
)
def test_a_tensor_on_the_cpu_is_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == ["PT102"]


@pytest.mark.parametrize(
    "script",
    [
        GENERATOR.format(move="", given="x.to(device)"),
        GENERATOR.format(move=".to(device)", given="weight"),
        DETECTOR.format(targets="targets = [{k: v.to(device) for k, v in t.items()} for t in targets]"),
        DETECTOR.format(targets="for target in targets: target['boxes'] = target['boxes'].to(device)"),
        DETECTOR.format(targets="").replace("tuple(zip(*items))", "on_gpu(items)"),
        CLOSURE.format(batch="(item.to(device) for item in batch)"),
        TOKENIZER.format(move="inputs.to(device)"),
        TOKENIZER.format(move="inputs = {key: value.to(device) for key, value in inputs.items()}"),
        TOKENIZER.format(move="for key in inputs: inputs[key] = inputs[key].to(device)"),
        FORWARD.format(**ON_GPU),
        HANDLER.format(move=".cpu()"),
        LOSS.format(part="nn.MSELoss()"),
        WEIGHTED,
        STATE_IN_LOOP,
    ],
)
def test_a_tensor_that_is_moved_is_not_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == []


def test_output_fn_gets_what_predict_fn_returns(tmp_path: Path) -> None:
    assert codes(tmp_path, HANDLER.format(move="")) == ["PT112"]


ELSEWHERE = """
model = nn.Linear(8, 3)
{between}
for x, y in DataLoader([]):
    model(x.to(device))
"""


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("print(model)", ["PT102"]),
        ("torch.optim.SGD(model.parameters())", ["PT102"]),
        ("import engine; engine.train(model=model, device=device)", []),
        ("from torchinfo import summary; summary(model)", []),
    ],
)
def test_a_function_elsewhere_may_move_the_model(tmp_path: Path, between: str, expected: list[str]) -> None:
    assert codes(tmp_path, ELSEWHERE.format(between=between)) == expected


PLOT = """
def plot(model, points):
    {before}
    with torch.inference_mode():
        return model(points)

model = nn.Linear(2, 1).to(device)
plot(model, torch.ones(8, 2))
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("model.eval()", ["PT102"]),
        ("model.cpu()", []),
        ('model.to("cpu")', []),
        ('model.to("cpu")\n    model.to(device)', ["PT102"]),
    ],
)
def test_a_model_that_was_moved_back_is_on_the_cpu(tmp_path: Path, before: str, expected: list[str]) -> None:
    assert codes(tmp_path, PLOT.format(before=before)) == expected


HELD = """
x, y = torch.ones(8, 2{device}), torch.ones(8, 1{device})
model = nn.Linear(2, 1).to(device)
for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=4):
    model(inputs)
"""


@pytest.mark.parametrize(("moved", "expected"), [("", ["PT102"]), (", device=device", [])])
def test_a_dataset_may_hold_tensors_on_the_gpu(tmp_path: Path, moved: str, expected: list[str]) -> None:
    script = "from torch.utils.data import TensorDataset\n" + HELD.format(device=moved)
    assert codes(tmp_path, script) == expected
