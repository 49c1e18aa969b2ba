"""Functions that the SageMaker SDK runs as jobs."""

from pathlib import Path

import pytest

from support.check_helpers import check_here, jobs_in, write_files

LOOP = """
    device = torch.device("cuda")
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for x in torch.utils.data.DataLoader([]):
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()
    return model
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def idle(text: str, **files: str) -> list[str]:
    write_files(
        Path(), {"job.py": text, **{name.replace("_DOT_", "."): content for name, content in files.items()}}
    )
    return [hit.finding.message for hit in check_here("job.py").hits if hit.code == "DS101"]


def function(decorator: str, before: str = "", after: str = "") -> str:
    return f"import torch\nfrom sagemaker.remote_function import remote, RemoteExecutor\n{before}\nRATE = 0.1\n\n{decorator}\ndef train(n):{LOOP}\n{after}\n"


def test_a_remote_function_on_four_gpus_that_uses_one() -> None:
    assert "3 idle" in idle(function('@remote(instance_type="ml.g5.12xlarge")'))[0]


def test_a_step_of_a_pipeline() -> None:
    before = "from sagemaker.workflow.function_step import step"
    assert idle(function('@step(instance_type="ml.g5.12xlarge", name="fit")', before))


def test_a_function_that_an_executor_gets() -> None:
    after = (
        'with RemoteExecutor(instance_type="ml.g5.12xlarge") as executor:\n    executor.submit(train, 3)\n'
    )
    assert idle(function("", after=after))


def test_the_type_in_config_yaml_is_the_default() -> None:
    settings = "SageMaker:\n  PythonSDK:\n    Modules:\n      RemoteFunction:\n        InstanceType: ml.g5.12xlarge\n"
    (message,) = idle(function("@remote"), config_DOT_yaml=settings)
    assert "ml.g5.12xlarge" in message


@pytest.mark.parametrize(
    "decorator",
    [
        '@remote(instance_type="ml.g5.xlarge")',
        '@remote(instance_type="ml.g5.12xlarge", use_torchrun=True, nproc_per_node=4)',
        "@remote(instance_type=chosen())",
        "@remote",
    ],
)
def test_nothing_is_idle(decorator: str) -> None:
    assert not idle(function(decorator))


def test_code_of_the_client_is_not_code_of_the_job() -> None:
    text = 'import torch\nfrom sagemaker.remote_function import remote\n\n@remote(instance_type="ml.g5.12xlarge")\ndef count(n):\n    return n\n\ndef train(n):'
    assert not idle(f"{text}{LOOP.replace('RATE', '0.1')}\ntrain(1)\ntorch.save(1, 'model.pt')\n")
    (job,) = jobs_in(Path(), "job.py")
    assert job.script is not None
    assert set(job.script.functions) == {"count"}
    assert not job.script.imports("sagemaker", "torch")


def test_files_of_the_client_are_not_lost_models() -> None:
    after = "torch.save(train(1), 'model.pt')\n"
    idle(function('@remote(instance_type="ml.g5.xlarge")', after=after))
    assert not [hit for hit in check_here("job.py").hits if hit.code in ("SM101", "SM102")]


def test_a_remote_function_that_needs_torchrun() -> None:
    text = "import torch.distributed as dist\nfrom sagemaker.remote_function import remote\n\n@remote(instance_type='ml.g5.12xlarge')\ndef train(n):\n    dist.init_process_group('nccl')\n\ntrain(1)\n"
    write_files(Path(), {"job.py": text})
    (message,) = [hit.finding.message for hit in check_here("job.py").hits if hit.code == "DS123"]
    assert "line 6" in message
    write_files(Path(), {"job.py": text.replace("12xlarge'", "12xlarge', use_torchrun=True")})
    assert not [hit for hit in check_here("job.py").hits if hit.code == "DS123"]
