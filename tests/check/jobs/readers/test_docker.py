"""Dockerfiles, `docker run` and Docker Compose: stages, options, and which Dockerfile builds what runs."""

from pathlib import Path

import pytest

from gpuproof.linter.jobs.commands.docker_run import docker_build, docker_run
from gpuproof.linter.jobs.commands.dockerfile import read_stages
from gpuproof.linter.jobs.commands.shell import Shell, commands
from gpuproof.linter.knowledge.containers.public_images import public_image
from support.check_helpers import check_here, jobs_in, write_files


def stages(text: str) -> list[tuple[str, str, str]]:
    return [(stage.image, stage.name, stage.base.image) for stage in read_stages(text)]


def test_arguments_before_from_are_substituted() -> None:
    text = "# syntax=docker/dockerfile:1\nARG CUDA=12.4.1\nFROM --platform=linux/amd64 nvidia/cuda:${CUDA}-base AS Base\nFROM base\n"
    assert stages(text) == [
        ("nvidia/cuda:12.4.1-base", "base", "nvidia/cuda:12.4.1-base"),
        ("base", "", "nvidia/cuda:12.4.1-base"),
    ]


def test_an_argument_without_a_value_stays_unknown() -> None:
    assert stages("ARG TAG\nFROM pytorch/pytorch:${TAG}\n")[0][0] == "pytorch/pytorch:${TAG}"
    assert stages("FROM pytorch/pytorch:${TAG:-2.4.0}\n")[0][0] == "pytorch/pytorch:2.4.0"


def test_words_of_continued_instructions_keep_their_positions() -> None:
    text = "FROM a\nARG V=2.1\nRUN --mount=type=cache,target=/root/.cache \\\n    # the framework\n    pip install \\\n      torch==${V}\n"
    run = read_stages(text)[0].instructions[-1]
    (command,) = commands(run.text, Shell(dict(run.variables)))
    assert command.words == ("pip", "install", "torch==2.1")
    assert [tuple(place) for place in command.places] == [(5, 5), (5, 9), (6, 7)]


def test_the_body_of_a_heredoc_is_a_script() -> None:
    text = "FROM a\nRUN <<EOF\npip install torch\necho FROM b\nEOF\nCOPY <<EOF /x\nFROM c\nEOF\nCMD x\n"
    (stage,) = read_stages(text)
    assert [instruction.name for instruction in stage.instructions] == ["RUN", "COPY", "CMD"]
    run = stage.instructions[0]
    assert [(command.words[0], command.line) for command in commands(run.text, Shell())] == [
        ("pip", 3),
        ("echo", 4),
    ]


@pytest.mark.parametrize(
    ("text", "image", "words", "gives_gpus"),
    [
        ("docker run --rm -it --gpus all img python a.py", "img", ("python", "a.py"), True),
        ("sudo docker run -d -p 80:80 -v /a:/b img:1", "img:1", (), False),
        ("docker container run --device nvidia.com/gpu=all img", "img", (), True),
        ("docker run -itv /a:/b --name=x img --epochs 3", "img", ("--epochs", "3"), False),
        ("docker run $OPTS img:2 a", "img:2", ("a",), True),
        ("nvidia-docker run img", "img", (), True),
        ("docker run -e A=1 --env B=2 $IMAGE python a.py", "$IMAGE", ("python", "a.py"), False),
    ],
)
def test_options_end_at_the_image(text: str, image: str, words: tuple[str, ...], gives_gpus: bool) -> None:
    (command,) = commands(text, Shell())
    run = docker_run(command)
    assert run is not None
    assert (run.image, run.words, run.gives_gpus) == (image, words, gives_gpus)


def test_a_build_has_tags_and_a_file() -> None:
    (command,) = commands(
        "docker buildx build --load -t a:1 --tag b -f docker/Dockerfile.gpu --build-arg X=1 .", Shell()
    )
    build = docker_build(command)
    assert build is not None
    assert (build.tags, build.file) == (("a:1", "b"), "docker/Dockerfile.gpu")


@pytest.mark.parametrize(
    ("name", "device", "version", "cuda"),
    [
        ("pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime", "gpu", "2.4.0", "12.1"),
        ("docker.io/nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", "gpu", "", "12.4"),
        ("tensorflow/tensorflow:2.15.0", "cpu", "2.15.0", ""),
        ("tensorflow/tensorflow:2.15.0-gpu-jupyter", "gpu", "2.15.0", ""),
        (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-x",
            "gpu",
            "2.3.0",
            "12.1",
        ),
    ],
)
def test_public_images(name: str, device: str, version: str, cuda: str) -> None:
    image = public_image(name)
    assert image is not None
    assert (image.device, image.version, image.cuda) == (device, version, cuda)


@pytest.mark.parametrize(
    "name", ["python:3.11-slim", "$REGISTRY/pytorch:latest", "tensorflow/tensorflow:$TAG", "ubuntu"]
)
def test_images_of_which_nothing_is_known(name: str) -> None:
    assert public_image(name) is None


DOCKERFILE = 'FROM python:3.11\nWORKDIR /app\nCOPY train.py .\nENTRYPOINT ["python", "train.py"]\n'


@pytest.mark.parametrize(
    "files",
    [
        {
            "run.sh": "docker build -t me/trainer:1 -f docker/Dockerfile .\ndocker run --gpus 2 me/trainer:1 --lr 3\n"
        },
        {
            "Makefile": "build:\n\tdocker build -t trainer -f docker/Dockerfile .\nrun: build\n\tdocker run --gpus 2 trainer --lr 3\n"
        },
        {
            "compose.yml": """
                services:
                  train:
                    build: {context: ., dockerfile: docker/Dockerfile}
                    command: ["--lr", "3"]
                    deploy: {resources: {reservations: {devices: [{count: 2, capabilities: [gpu]}]}}}
            """
        },
    ],
)
def test_the_dockerfile_that_builds_an_image_leads_to_its_script(
    tmp_path: Path, files: dict[str, str]
) -> None:
    write_files(tmp_path, {"docker/Dockerfile": DOCKERFILE, "train.py": "print(1)\n", **files})
    (job,) = [job for job in jobs_in(tmp_path, *files) if job.source in ("docker", "compose")]
    assert job.recipe is not None
    assert job.script is not None
    assert job.start is not None
    assert (job.gpu_count.value, job.script.title, job.start.arguments) == (2, "train.py", ("--lr", "3"))


def test_a_folder_with_many_commands_is_no_list_of_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(
        tmp_path,
        {
            "Makefile": "lint:\n\truff check\n",
            "Dockerfile": "FROM scratch\n",
            "setup.sh": "apt-get install -y git\n",
            "compose.yaml": "services: {db: {image: postgres}}\n",
        },
    )
    assert check_here(".").hits == ()
