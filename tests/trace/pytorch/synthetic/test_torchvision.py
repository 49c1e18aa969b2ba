"""Data sets of torchvision that are not here: zeros of the published sizes, and folders of which nothing is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.traced_scripts import failure_of, trace_of

skip_without("torchvision")
pytestmark = pytest.mark.slow

SCRIPT = """
import torch
import torchvision
from torch.utils.data import DataLoader, Subset
from torchvision.transforms import Compose, RandomResizedCrop, ToTensor

transform = Compose([RandomResizedCrop(32), ToTensor()])
data = torchvision.datasets.{data}
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, {classes})).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in DataLoader(data, batch_size=100, shuffle=True):
    torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    optimizer.step()
"""
OPTION = ("--data", "synthetic")


@pytest.mark.parametrize(
    ("data", "classes", "steps"),
    [
        ("SVHN('data', split='train', transform=transform, download=True)", 10, 733),
        ("STL10('data', 'train', transform=transform)", 10, 50),
        ("Food101('data', 'test', transform=transform)", 101, 253),
        ("Flowers102('data', transform=transform)", 102, 11),
        ("OxfordIIITPet('data', transform=transform, download=True)", 37, 37),
        ("ImageNet('data', split='val', transform=transform)", 1000, 500),
    ],
)
def test_a_public_data_set_has_its_published_size(
    tmp_path: Path, data: str, classes: int, steps: int
) -> None:
    trace = trace_of(tmp_path, SCRIPT.format(data=data, classes=classes), *OPTION)
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (100, steps, True)
    (note,) = [note for note in trace.assumptions if note.code == "synthetic-data"]
    assert f"torchvision.datasets.{data.partition('(')[0]}" in note.message


@pytest.mark.parametrize(
    "data",
    [
        "ImageFolder('photos/train', transform)",
        "ImageFolder('photos/train', transform=transform)\ndata = Subset(data, range(500))",
    ],
)
def test_how_many_images_a_missing_folder_has_is_not_known(tmp_path: Path, data: str) -> None:
    trace = trace_of(tmp_path, SCRIPT.format(data=data, classes=10), *OPTION)
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (100, None, True)
    (note,) = [note for note in trace.assumptions if note.code == "synthetic-data"]
    assert "photos/train" in note.message


@pytest.mark.parametrize(
    "classes", ["len(data.classes)", "len(data.class_to_idx)", "max(data.class_to_idx.values())"]
)
def test_classes_that_a_script_needs_are_an_error(tmp_path: Path, classes: str) -> None:
    script = SCRIPT.format(data="ImageFolder('photos/train', transform)", classes=classes)
    found = failure_of(tmp_path, script, *OPTION)
    assert (found.code, found.line) == ("missing-data", 9)
    assert "photos/train" in found.message
    assert "--input" in found.remedy


def test_a_folder_that_is_there_is_read(tmp_path: Path) -> None:
    script = f"""
from PIL import Image
from pathlib import Path
for kind in ("a", "b"):
    Path("photos", kind).mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(f"photos/{{kind}}/one.png")
{SCRIPT.format(data="ImageFolder('photos', transform)", classes="len(data.classes)")}
"""
    trace = trace_of(tmp_path, script, *OPTION)
    assert (trace.parameters, trace.input.synthetic) == (2 * (3 * 32 * 32 + 1), False)
