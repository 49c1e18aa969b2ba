"""The code blocks of the five articles that people find first, re-created, and what GPUproof makes of each.

`tests/articles` proves each entry; `tools/build_articles.py` writes them, with the messages of `gpuproof check`, to docs/articles.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
BLOCKS = ROOT / "tests" / "articles" / "blocks"
_RUNS = "tests/articles/test_scripts_run.py"
_EC2 = "tests/articles/test_training_on_ec2.py"
_SAGEMAKER = "tests/articles/test_sagemaker_jobs.py"
_FOUND = "tests/articles/test_articles.py"


class Block(NamedTuple):
    """One code block.

    Args:
        folder: below `BLOCKS`, with the re-created block, and in `mended` what it should have been.
        about: what it is meant to do.
        found: the rules that report it, at `gpuproof check`'s default settings.
        today: what happens when it runs.
        test: of what happens; the id of a test function.
    """

    folder: str
    about: str
    found: tuple[str, ...]
    today: str
    test: str


class Article(NamedTuple):
    """One article.

    Args:
        question: what it answers.
        guide: GPUproof's own answer, below docs/guides.
    """

    question: str
    guide: str
    blocks: tuple[Block, ...]


_CPU = (
    "Runs to the end without a GPU and says so in its output only. Under `gpuproof run` for `ml.g4dn.xlarge` the verdict is "
    "`cpu-only`, exit code 4."
)
_MIRRORED = "Refused: `gpuproof run` checks first, and finds errors."

ARTICLES = (
    Article(
        "TensorFlow on an EC2 GPU",
        "tensorflow-on-an-ec2-gpu",
        (
            Block(
                "ec2_tensorflow/gpu_check",
                "Print the GPUs, and compute on one",
                (),
                _CPU,
                f"{_RUNS}::test_a_script_that_finds_no_gpu",
            ),
            Block(
                "ec2_tensorflow/memory_growth",
                "Let GPU memory grow",
                (),
                _CPU,
                f"{_RUNS}::test_a_script_that_finds_no_gpu",
            ),
            Block(
                "ec2_tensorflow/training",
                "Train a small model",
                ("IO109",),
                "Trains to the end on the simulated EC2 host under `gpuproof run --on ec2`.",
                f"{_EC2}::test_the_training_script_runs_on_an_ec2_host",
            ),
        ),
    ),
    Article(
        "AWS, CUDA and TensorFlow together",
        "aws-cuda-tensorflow",
        (
            Block(
                "aws_cuda_tensorflow/gpu_configuration",
                "Configure the GPUs",
                (),
                _CPU,
                f"{_RUNS}::test_a_script_that_finds_no_gpu",
            ),
            Block(
                "aws_cuda_tensorflow/cuda_kernel",
                "A CUDA kernel",
                ("E901",),
                "Refused: it is C++ in a Python file, and does not parse.",
                f"{_FOUND}::test_a_job_with_errors_is_refused_before_it_starts",
            ),
            Block(
                "aws_cuda_tensorflow/mirrored",
                "Train on several GPUs of one instance",
                ("DS103", "E902", "IN105", "SM102"),
                _MIRRORED,
                f"{_FOUND}::test_a_job_with_errors_is_refused_before_it_starts",
            ),
        ),
    ),
    Article(
        "GPUs in SageMaker: training, endpoints, processing",
        "sagemaker-gpus",
        (
            Block(
                "sagemaker_gpus/estimator",
                "A training job of the SageMaker SDK v2",
                ("DS104", "IN105", "SDK201"),
                "Mended (an instance type that exists, no parameter server, a limit of the run time), it trains on the emulator.",
                f"{_SAGEMAKER}::test_the_estimator_trains",
            ),
            Block(
                "sagemaker_gpus/visible_devices",
                "Choose a GPU in the training script",
                ("TF103",),
                _CPU.replace("ml.g4dn.xlarge", "ml.g5.12xlarge"),
                f"{_RUNS}::test_a_script_that_finds_no_gpu",
            ),
            Block(
                "sagemaker_gpus/endpoint",
                "Deploy a PyTorch model",
                ("CO101", "SDK101", "SDK201", "SM123"),
                "Mended (no parameters that the SDK lacks, a handler), the SDK deploys it on the emulator, it answers, and all is deleted.",
                f"{_SAGEMAKER}::test_the_pytorch_model_answers_and_is_deleted",
            ),
            Block(
                "sagemaker_gpus/inference",
                "The handler of the endpoint",
                ("E902", "SM116"),
                "Mended (one copy of the model, loaded in `model_fn`), it answers on the emulator.",
                f"{_SAGEMAKER}::test_the_pytorch_model_answers_and_is_deleted",
            ),
            Block(
                "sagemaker_gpus/processor",
                "A processing job, and its script",
                ("SDK201", "SM113", "SM114", "SM125"),
                "Mended (reads its input where it is mounted, writes its output), it processes on the emulator.",
                f"{_SAGEMAKER}::test_the_processor_writes_its_output",
            ),
        ),
    ),
    Article(
        "Keras and TensorFlow on SageMaker GPUs",
        "keras-on-sagemaker-gpus",
        (
            Block(
                "keras_sagemaker/boto3_job",
                "A training job of boto3",
                ("FW102", "IN105", "SDK105", "SM118"),
                "Mended (a tag, a script, a limit of the run time, an instance type that exists), it trains on the emulator.",
                f"{_SAGEMAKER}::test_the_boto3_job_trains",
            ),
            Block(
                "keras_sagemaker/mirrored",
                "Train on several GPUs, on an instance that has one",
                ("DS103", "E902", "IN105", "SM102"),
                _MIRRORED,
                f"{_FOUND}::test_a_job_with_errors_is_refused_before_it_starts",
            ),
        ),
    ),
    Article(
        "My ml.t3.2xlarge has no GPU",
        "ml-t3-2xlarge-has-no-gpu",
        (
            Block(
                "t3_without_gpu/training",
                "A training script and its launcher, in one file",
                ("IN105", "SDK201", "SM101", "SM140"),
                "Mended (two files, a SavedModel in `/opt/ml/model`), it trains on the emulator.",
                f"{_SAGEMAKER}::test_a_model_is_trained_and_served",
            ),
            Block(
                "t3_without_gpu/endpoint",
                "Deploy the trained model",
                ("SDK101", "SDK201"),
                "Mended, the SDK deploys what was trained on the emulator, it answers, and all is deleted.",
                f"{_SAGEMAKER}::test_a_model_is_trained_and_served",
            ),
            Block(
                "t3_without_gpu/notebook",
                "Ask both frameworks for a GPU, in a notebook",
                (),
                "Runs, and says that there is none; `gpuproof gpus ml.t3.2xlarge` says why and what to use.",
                f"{_RUNS}::test_both_frameworks_report_no_gpu",
            ),
        ),
    ),
)


def all_blocks() -> list[Block]:
    """The blocks of all articles, in order."""
    return [block for article in ARTICLES for block in article.blocks]


def findings(block: Block) -> list[dict[str, Any]]:
    """What `gpuproof check` reports for a block, in a folder of its own: below `tests`, placeholders are expected."""
    with tempfile.TemporaryDirectory() as folder:
        project = copy_block(block.folder, Path(folder) / "job")
        done = subprocess.run(
            [sys.executable, "-m", "gpuproof", "check", ".", "--format", "json"],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
    return json.loads(done.stdout)["findings"]


def copy_block(folder: str, target: Path) -> Path:
    """Copy a block without its mended form."""
    shutil.copytree(BLOCKS / folder, target, ignore=shutil.ignore_patterns("mended", "__pycache__"))
    return target
