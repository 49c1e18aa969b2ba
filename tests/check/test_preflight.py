"""The job that is about to run is checked with its script and what that imports."""

from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.jobs.load import load
from gpuproof.linter.preflight import check_job
from support.check_helpers import write_files

TRAIN = """
import torch
from torch.utils.data import DataLoader
from net import Net

model = Net()
opt = torch.optim.SGD(model.parameters(), lr=1)
for x, y in DataLoader([]):
    loss = model(x).sum()
    loss.backward()
    opt.step()
"""
NET = "import torch\n\nclass Net(torch.nn.Linear):\n    pass\n"
JOB = "entry_point: train.py\ninstance_type: ml.g5.12xlarge\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_script_that_never_uses_its_gpus_is_an_error(here: Path) -> None:
    write_files(here, {"train.py": TRAIN, "net.py": NET, "gpuproof.yaml": JOB})
    found = {hit.code: hit for hit in check_job(load(here))}
    assert "PT101" in found
    assert "all 4 GPUs stay idle on `ml.g5.12xlarge`" in found["PT101"].finding.message
    assert str(found["PT101"].finding.location).startswith("train.py:")


def test_a_finding_about_the_jobs_settings_is_not_located_in_its_script(here: Path) -> None:
    job = "entry_point: train.py\ninstance_type: ml.t3.2xlarge\nrequire_gpu: true\n"
    write_files(here, {"train.py": TRAIN, "net.py": NET, "gpuproof.yaml": job})
    found = {hit.code: hit.finding for hit in check_job(load(here))}
    assert found["IN104"].location is None


def test_the_gpus_and_the_price_of_all_hosts_count(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    write_files(here, {"train.py": TRAIN, "net.py": NET, "gpuproof.yaml": f"{JOB}instance_count: 2\n"})
    found = {hit.code: hit.finding.message for hit in check_job(load(here))}
    price = Catalogue.load().price("ml.g5.12xlarge", "us-east-1", "training")
    assert price is not None
    assert (
        f"all 8 GPUs stay idle on 2 x `ml.g5.12xlarge` at ${2 * price.usd_per_hour:.2f} an hour"
        in found["PT101"]
    )


def test_a_module_that_the_script_imports_counts(here: Path) -> None:
    write_files(
        here,
        {
            "train.py": TRAIN,
            "net.py": NET + "def place(x, where): return x.to(where)\n",
            "gpuproof.yaml": JOB,
        },
    )
    assert "PT101" not in {hit.code for hit in check_job(load(here))}


def test_settings_of_the_scripts_project_are_kept(here: Path) -> None:
    settings = '[tool.gpuproof.check]\nignore = ["PT101"]\n'
    write_files(here, {"train.py": TRAIN, "net.py": NET, "gpuproof.yaml": JOB, "pyproject.toml": settings})
    assert "PT101" not in {hit.code for hit in check_job(load(here))}


def test_a_comment_in_the_script_silences(here: Path) -> None:
    script = TRAIN.replace("loss.backward()", "loss.backward()  # noqa: PT101")
    write_files(here, {"train.py": script, "net.py": NET, "gpuproof.yaml": JOB})
    assert "PT101" not in {hit.code for hit in check_job(load(here))}


def test_a_script_without_an_instance_type_is_checked_by_itself(here: Path) -> None:
    write_files(here, {"train.py": "x = ("})
    assert [hit.code for hit in check_job(load(here / "train.py"))] == ["E901"]


def test_a_shell_script_is_not_ours(here: Path) -> None:
    write_files(here, {"train.sh": "exit 1\n", "gpuproof.yaml": "entry_point: train.sh\n"})
    assert check_job(load(here)) == []


SEVERAL_HOSTS = """
import tensorflow as tf
import gpuproof.runtime as rt

with rt.strategy().scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
model.fit(tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).batch(8).prefetch(1))
rt.save(model)
"""


@pytest.mark.parametrize(
    ("installed", "more", "found"),
    [
        ("2.21.0", "", ["error"]),
        (None, "", ["warning"]),
        ("2.15.1", "", []),
        ("2.21.0", "environment: {TF_USE_LEGACY_KERAS: '1'}\n", []),
    ],
)
def test_keras_3s_fit_on_several_hosts_is_an_error_before_the_job_starts(
    here: Path, installed: str | None, more: str, found: list[str]
) -> None:
    job = "entry_point: train.py\nframework: tensorflow\ninstance_count: 2\ndistribution: multi_worker_mirrored\n"
    write_files(here, {"train.py": SEVERAL_HOSTS, "gpuproof.yaml": job + more})
    hits = check_job(load(here), is_remote=False, tensorflow=installed)
    assert [str(hit.finding.severity.value) for hit in hits if hit.code == "TF113"] == found
