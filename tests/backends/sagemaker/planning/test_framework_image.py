"""Which framework a source needs, and which image has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.remote.planning.framework import Framework, framework_of
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.backends.sagemaker.planning.image import ChosenImage, choose_image, gpu_problem
from gpuproof.backends.sagemaker.planning.instance_types import choose_instance_types
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.source.tree import collect

REGION = "eu-central-1"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def found(folder: Path, script: str, requirements: str | None = None, **keys: Any) -> Framework:
    (folder / "train.py").write_text(script)
    if requirements is not None:
        (folder / "requirements.txt").write_text(requirements)
    job = TrainingJob(entry_point="train.py", source_dir=str(folder), **keys)
    return framework_of(job, collect(folder, "train.py"))


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("import torch\n", "pytorch"),
        ("import os, torch.nn as nn\n", "pytorch"),
        ("    from torchvision import models\n", "pytorch"),
        ("import tensorflow as tf\n", "tensorflow"),
        ("import keras\n", "tensorflow"),
        ("import tensorflow as tf\nimport keras\n", "tensorflow"),
    ],
)
def test_the_imports_of_the_script_determine_the_framework(tmp_path: Path, script: str, name: str) -> None:
    assert found(tmp_path, script).name == name


def test_the_jobs_own_word_goes_first(tmp_path: Path) -> None:
    assert found(tmp_path, "import torch\n", framework="tensorflow").name == "tensorflow"


def test_keras_runs_on_the_backend_that_the_environment_names(tmp_path: Path) -> None:
    assert found(tmp_path, "import keras\n", environment={"KERAS_BACKEND": "torch"}).name == "pytorch"


def test_a_module_beside_the_script_may_tell_it(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n")
    assert found(tmp_path, "import model\n").name == "pytorch"


def test_two_frameworks_are_not_guessed_between(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="pytorch and tensorflow"):
        found(tmp_path, "import torch\nimport tensorflow\n")


def test_a_missing_framework_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob) as raised:
        found(tmp_path, "print(1)\n")
    assert "--framework pytorch" in (raised.value.remedy or "")


def test_requirements_pin_the_version(tmp_path: Path) -> None:
    assert found(tmp_path, "import torch\n", "numpy\ntorch==2.8.0  # as at home\n").version == "2.8.0"


def test_the_jobs_version_wins_over_requirements(tmp_path: Path) -> None:
    framework = found(tmp_path, "import torch\n", "torch==2.8.0\n", framework_version="2.6")
    assert (framework.version, framework.pinned) == ("2.6", True)


def chosen(catalogue: Catalogue, framework: Framework | None, instance: str, **keys: Any) -> ChosenImage:
    kind = keys.pop("kind", "training")
    model = TrainingJob if kind == "training" else ProcessingJob
    job: Job = model(entry_point="train.py", instance_type=instance, **keys)
    candidate = choose_instance_types(job, catalogue, REGION).candidates[0]
    return choose_image(job, framework, candidate, catalogue, REGION)


def test_a_gpu_type_gets_the_gpu_image_of_the_region(catalogue: Catalogue) -> None:
    image = chosen(catalogue, Framework("pytorch", "2.8", "test"), "ml.g5.xlarge")
    assert image.uri.startswith("763104351884.dkr.ecr.eu-central-1.amazonaws.com/pytorch-training:2.8")
    assert "-gpu-" in image.uri
    assert image.uri.endswith("-sagemaker")


def test_a_type_without_a_gpu_gets_the_cpu_image(catalogue: Catalogue) -> None:
    assert "-cpu-" in chosen(catalogue, Framework("tensorflow", "2.19", "test"), "ml.m5.xlarge").uri


def test_a_processing_job_takes_the_training_image(catalogue: Catalogue) -> None:
    image = chosen(catalogue, Framework("pytorch", "2.8", "test"), "ml.g4dn.xlarge", kind="processing")
    assert "/pytorch-training:" in image.uri


def test_without_a_version_it_is_one_that_aws_still_patches(catalogue: Catalogue) -> None:
    image = chosen(catalogue, Framework("pytorch", None, "test"), "ml.g5.xlarge")
    assert image.row is not None
    assert image.row.status == "patched"
    assert image.note is None


def test_the_users_image_is_taken_as_it_is(catalogue: Catalogue) -> None:
    image = chosen(catalogue, None, "ml.g5.xlarge", image="example.com/mine:1")
    assert (image.uri, image.row) == ("example.com/mine:1", None)


def test_a_version_without_an_image_names_those_that_have_one(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        chosen(catalogue, Framework("pytorch", "1.0", "test", pinned=True), "ml.g5.xlarge")
    assert "pytorch 1.0" in raised.value.message
    assert "2.8.0" in (raised.value.remedy or "")


def test_a_pin_in_requirements_without_an_image_takes_the_newest_with_a_note(catalogue: Catalogue) -> None:
    image = chosen(catalogue, Framework("pytorch", "1.0", "test"), "ml.g5.xlarge")
    assert image.row is not None
    assert (image.row.device, image.row.status) == ("gpu", "patched")
    assert "pytorch 1.0" in (image.note or "")


def test_a_framework_without_images_gets_a_remedy(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidJob) as raised:
        chosen(catalogue, Framework("mxnet", None, "test"), "ml.g5.xlarge")
    assert "--image" in (raised.value.remedy or "")


def test_an_unknown_type_of_a_gpu_family_gets_the_gpu_image(catalogue: Catalogue) -> None:
    job = TrainingJob(entry_point="train.py", instance_type="ml.g99.xlarge")
    image = choose_image(
        job,
        Framework("pytorch", "2.8", "test"),
        Candidate("ml.g99.xlarge", None, None),
        catalogue,
        REGION,
    )
    assert "-gpu-" in image.uri


def test_a_framework_that_does_not_see_a_gpu_is_reported(catalogue: Catalogue) -> None:
    job = TrainingJob(entry_point="train.py", instance_type="ml.p3.2xlarge")
    candidate = choose_instance_types(job, catalogue, "us-east-1").candidates[0]
    image = choose_image(job, Framework("pytorch", "2.10", "test"), candidate, catalogue, "us-east-1")
    assert "V100" in (gpu_problem(image, candidate, catalogue) or "")


def test_hugging_face_has_its_own_image_by_the_version_of_transformers(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    framework = found(tmp_path, "import transformers\n", framework="huggingface", framework_version="4.56")
    assert (framework.name, framework.version, framework.pinned) == ("huggingface", "4.56", True)
    instance = catalogue.instance("ml.g5.xlarge")
    job = TrainingJob(entry_point="train.py", framework="huggingface", framework_version="4.56")
    image = choose_image(job, framework, Candidate("ml.g5.xlarge", instance, None), catalogue, "us-west-2")
    assert "/huggingface-pytorch-training:2.8.0-transformers4.56.2-gpu-" in image.uri
    assert image.row is not None
    assert image.row.framework == "torch"
