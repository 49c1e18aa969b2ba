"""A job in a container: the environment of its script, and what SageMaker gets at its end."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import Container

PYTHON_39 = Path.home() / ".pyenv/versions/3.9.18/bin/python"
REPORT = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "python": sys.version_info[:2],
    "written": json.load(open("/opt/ml/input/config/hyperparameters.json")) if os.path.isdir("/opt/ml/input") else None,
    "opt_ml": sorted(os.listdir("/opt/ml"))}))
"""


def seen_by(container: Container, **options: Any) -> dict[str, Any]:
    done = container.carry_out(**options)
    assert done.code == 0, done.stderr
    return json.loads(done.lines[0])


def test_the_script_finds_the_same_environment_as_in_local_runs(container: Container) -> None:
    container.sagemaker(channels=["training"])
    container.environment = {"WHO": "me", "TRAINING_JOB_ARN": "arn", "SM_OWN": "kept"}
    container.send(
        {"train.py": REPORT, "lib/__init__.py": ""},
        hyperparameters={"epochs": 5, "learning-rate": 0.1},
        arguments=["--more"],
        channels=["training"],
        framework="pytorch",
        instance_type="ml.p3.2xlarge",
        require_gpu=False,
        expected_gpus=2,
    )
    seen = seen_by(container)
    assert seen["argv"] == ["--epochs", "5", "--learning-rate", "0.1", "--more"]
    assert seen["cwd"] == "/opt/ml/code"
    assert seen["written"] == {"epochs": "5"}
    env = seen["env"]
    assert env["SM_CHANNELS"] == '["training"]'
    assert env["SM_CHANNEL_TRAINING"] == "/opt/ml/input/data/training"
    assert "SM_CHANNEL_CODE" not in env
    assert env["SM_HPS"] == '{"epochs":5,"learning-rate":0.1}'
    assert env["SM_MODEL_DIR"] == "/opt/ml/model"
    assert env["SM_CURRENT_INSTANCE_TYPE"] == "ml.g5.xlarge"
    assert env["SM_FRAMEWORK_MODULE"] == "sagemaker_pytorch_container.training:main"
    assert env["TRAINING_JOB_NAME"] == "digits-20260101-000000-abcd"
    assert (env["WHO"], env["TRAINING_JOB_ARN"], env["SM_OWN"]) == ("me", "arn", "kept")
    assert (env["GPUPROOF_REQUIRE_GPU"], env["GPUPROOF_EXPECTED_GPUS"]) == ("0", "2")


@pytest.mark.skipif(not PYTHON_39.exists(), reason="there is no Python without GPUproof here")
def test_the_script_can_import_the_runtime_library_from_the_agents_file(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "import gpuproof.runtime as r; print(r.__file__)"})
    container.python = str(PYTHON_39)
    done = container.carry_out()
    assert done.lines == ["/opt/ml/input/data/code/gpuproof-agent.pyz/gpuproof/runtime/__init__.py"], (
        done.stderr
    )


@pytest.mark.skipif(not PYTHON_39.exists(), reason="there is no Python 3.9 here")
def test_python_3_9_will_do(container: Container) -> None:
    container.python = str(PYTHON_39)
    container.sagemaker()
    container.send({"train.py": REPORT})
    assert seen_by(container)["python"] == [3, 9]
    assert container.run["status"] == "Completed"


@pytest.mark.parametrize("version", ["3.6.15", "3.7.16", "3.8.18"])
def test_an_older_python_is_refused_in_words(container: Container, version: str) -> None:
    old = Path.home() / ".pyenv/versions" / version / "bin/python"
    if not old.exists():
        pytest.skip(f"there is no Python {version} here")
    container.python = str(old)
    container.sagemaker()
    container.send({"train.py": "print('started')"})
    (container.ml / "output").mkdir()
    done = container.carry_out()
    assert done.code == 1
    assert container.failure == done.stderr.strip()
    assert "requires Python 3.9 or later" in container.failure


def test_several_hosts_know_each_other_and_report_apart(container: Container) -> None:
    container.sagemaker(hosts=["algo-1", "algo-2"], host="algo-2")
    container.send({"train.py": REPORT}, hosts=["algo-1"])
    env = seen_by(container)["env"]
    assert (env["SM_HOSTS"], env["SM_CURRENT_HOST"]) == ('["algo-1","algo-2"]', "algo-2")
    assert env["SM_CURRENT_INSTANCE_GROUP_HOSTS"] == '["algo-1","algo-2"]'
    assert json.loads((container.results("algo-2") / "run.json").read_text())["host"] == "algo-2"
    assert not container.results("algo-1").exists()


def test_the_input_data_config_reaches_the_script_unchanged(container: Container) -> None:
    container.sagemaker(channels=["training"])
    config = container.ml / "input/config/inputdataconfig.json"
    config.write_text(config.read_text().replace('"File"', '"FastFile"'))
    container.send({"train.py": REPORT})
    received = json.loads(seen_by(container)["env"]["SM_INPUT_DATA_CONFIG"])
    assert set(received) == {"training"}
    assert received["training"]["TrainingInputMode"] == "FastFile"


def test_a_channel_of_the_users_that_is_called_code_is_shown(container: Container) -> None:
    container.sagemaker(channels=["gpuproof"])
    container.send({"train.py": REPORT})
    sent = container.folder
    (container.ml / "input/data/code").rename(container.ml / "input/data/gpuproof")
    sent.mkdir()
    (sent / "gpuproof-agent.pyz").write_bytes(container.agent.read_bytes())
    done = container.carry_out("--container", "/opt/ml/input/data/gpuproof")
    assert done.code == 0, done.stderr
    assert json.loads(done.lines[0])["env"]["SM_CHANNELS"] == '["code"]'


def test_a_processing_job_lies_where_sagemakers_own_processors_put_it(container: Container) -> None:
    container.kind = "processing"
    container.sagemaker()
    container.send({"clean.py": REPORT}, outputs=[{"target": "processing/output", "destination": None}])
    seen = seen_by(container)
    assert seen["cwd"] == "/opt/ml/processing/input/code"
    assert seen["env"]["PROCESSING_JOB_NAME"] == "digits-20260101-000000-abcd"
    assert (container.ml / "processing/output").is_dir()
    assert container.run["status"] == "Completed"
    assert (container.results() / "verdict.json").is_file()
    assert not (container.ml / "model").exists()


def test_an_input_over_that_place_leaves_the_code_beside_it_as_locally(container: Container) -> None:
    container.kind = "processing"
    container.sagemaker()
    inputs = [
        {"InputName": "gpuproof", "S3Input": {"LocalPath": "/opt/ml/processing/gpuproof"}},
        {"InputName": "raw", "S3Input": {"LocalPath": "/opt/ml/processing/input"}},
    ]
    cluster = {"ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.xlarge"}}
    (container.ml / "config/processingjobconfig.json").write_text(
        json.dumps({"ProcessingInputs": inputs, "ProcessingResources": cluster})
    )
    container.send({"clean.py": REPORT})
    assert seen_by(container)["cwd"] == "/opt/ml/processing/code"
    assert container.run["instance_type"] == "ml.m5.xlarge"


def test_a_shell_script_is_started_as_the_toolkit_starts_it(container: Container) -> None:
    container.sagemaker()
    container.send({"train.sh": '#!/bin/sh\necho "$SM_MODEL_DIR" "$@"\n'}, hyperparameters={"epochs": 5})
    assert container.carry_out().lines == ["/opt/ml/model --epochs 5"]


def test_the_verdict_is_the_last_line_and_lies_where_it_is_uploaded(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "print('done', end='')\nopen('/opt/ml/model/w', 'w').write('w')"})
    done = container.carry_out()
    first, last = done.stdout.decode().splitlines()
    assert first == "done"
    assert last.startswith("gpuproof-verdict: ")
    assert done.verdict == json.loads((container.results() / "verdict.json").read_text())
    assert done.verdict["outcome"] == container.run["verdict"] == "no-gpu-expected"
    assert (container.run["backend"], container.run["isolation"], container.run["exit_code"]) == (
        "sagemaker",
        "container",
        0,
    )
    assert done.stderr == ""


def test_nothing_is_packed_and_nothing_is_left_but_results(container: Container, tmp_path: Path) -> None:
    container.sagemaker()
    container.environment = {"TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    container.send(
        {"train.py": "open('/opt/ml/model/w', 'w').write('w'); open('/opt/ml/checkpoints/c', 'w').write('c')"}
    )
    assert container.carry_out().code == 0
    assert sorted(os.listdir(container.ml / "model")) == ["w"]
    assert sorted(os.listdir(container.ml / "checkpoints")) == ["c"]
    assert sorted(os.listdir(container.ml)) == ["checkpoints", "code", "input", "model", "output"]
    assert os.listdir(tmp_path / "tmp") == []


def test_a_model_saved_in_the_wrong_place_is_named(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "open('model.h5', 'wb').write(b'x' * 10)"})
    done = container.carry_out()
    assert done.code == 0
    assert "/opt/ml/model is empty" in done.stderr
    assert any("model.h5" in note for note in container.run["notes"])


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("raise ValueError('no rows')", 1, "ValueError: no rows"),
        ("raise SystemExit(7)", 7, "ExitCode 7"),
        ("import os; os.kill(os.getpid(), 11)", 139, "ExitCode 139"),
        ("import os; os.execvp('sh', ['sh', '-c', 'exit 9'])", 9, "ExitCode 9"),
    ],
)
def test_a_failure_is_sagemakers_to_show(container: Container, script: str, code: int, words: str) -> None:
    container.sagemaker()
    container.send({"train.py": script})
    done = container.carry_out()
    assert done.code == code
    assert container.failure.startswith("ExecuteUserScriptError:")
    assert words in container.failure[:1024]
    assert container.run["status"] == "Failed"
    assert done.verdict["outcome"] == "no-gpu-expected"


def test_the_scripts_own_failure_message_stays(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "open('/opt/ml/output/failure', 'w').write('bad disk'); raise SystemExit(1)"})
    assert container.carry_out().code == 1
    assert container.failure == "bad disk"


def test_a_failed_processing_job_leaves_a_message(container: Container) -> None:
    container.kind = "processing"
    container.sagemaker()
    container.send({"clean.py": "raise ValueError('no rows')"})
    assert container.carry_out().code == 1
    assert "ValueError: no rows" in container.failure


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "job.json").unlink(), "job.json cannot be read: No such file"),
        (lambda folder: (folder / "job.json").write_text("{"), "job.json is not a job"),
        (lambda folder: (folder / "job.json").write_text('{"version": 99}'), "version 99"),
        (lambda folder: (folder / "job.json").write_text('{"version": 1}'), "job.json is not a job"),
        (lambda folder: (folder / "source.tar.gz").unlink(), "source.tar.gz is not there"),
        (lambda folder: (folder / "source.tar.gz").write_bytes(b"x" * 99), "no whole tar archive"),
    ],
    ids=["no job", "half a job", "a later version", "an empty job", "no source", "no archive"],
)
def test_what_did_not_arrive_whole_is_named(container: Container, spoil: Any, words: str) -> None:
    container.sagemaker()
    container.send({"train.py": "print('started')"})
    spoil(container.folder)
    done = container.carry_out()
    assert done.code == 1
    assert words in container.failure
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert b"started" not in done.stdout


def test_a_folder_that_is_not_there_is_named(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": ""})
    done = container.carry_out("--container", "/opt/ml/input/data/elsewhere")
    assert done.code == 1
    assert "/opt/ml/input/data/elsewhere/job.json cannot be read" in container.failure


def test_a_broken_configuration_is_named(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": ""})
    (container.ml / "input/config/resourceconfig.json").write_text("[]")
    assert container.carry_out().code == 1
    assert container.failure == "/opt/ml/input/config/resourceconfig.json does not contain a JSON object"


def test_without_sagemakers_files_the_job_document_is_used(container: Container) -> None:
    container.send(
        {"train.py": REPORT.replace('os.path.isdir("/opt/ml/input")', "False")}, channels=["training"]
    )
    env = seen_by(container)["env"]
    assert (env["SM_HOSTS"], env["SM_CHANNELS"]) == ('["algo-1"]', '["training"]')


def test_a_source_archive_cannot_write_outside_of_the_code_folder(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "print('started')", "../escaped.txt": "x"})
    done = container.carry_out()
    assert done.code == 1
    assert "leads out of the folder" in container.failure
    assert not (container.ml / "escaped.txt").exists()
    assert b"started" not in done.stdout


def test_an_entry_point_that_is_not_in_the_source_is_named(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": ""}, entry_point="trian.py")
    assert container.carry_out().code == 1
    assert "trian.py is not in" in container.failure


def test_an_interpreter_that_the_image_lacks_is_named(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": ""}, python="python9.9")
    assert container.carry_out().code == 1
    assert "python9.9" in container.failure


def test_requirements_are_installed_for_the_run_alone(container: Container) -> None:
    name = "runwayhelper"
    info = f"{name}-1.5.dist-info"
    files = {
        f"{name}.py": "VERSION = '1.5'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    container.sagemaker()
    container.send(
        {
            "train.py": "import runwayhelper; print(runwayhelper.VERSION)",
            "requirements.txt": f"--no-index\n--find-links ./wheels\n{name}\n",
            f"wheels/{name}-1.5-py3-none-any.whl": container.zipped(files),
        }
    )
    done = container.carry_out()
    assert done.code == 0, done.stderr + done.stdout.decode()
    assert done.lines[-1] == "1.5"


def test_requirements_that_cannot_be_met_are_the_failure(container: Container) -> None:
    container.sagemaker()
    container.send({"train.py": "print('started')", "requirements.txt": "--no-index\nno-such-runway\n"})
    done = container.carry_out()
    assert done.code == 1
    assert "no-such-runway" in container.failure[:1024]
    assert "started" not in done.lines
    assert container.run["status"] == "Failed"


def test_secrets_in_the_environment_reach_the_script_and_no_file(container: Container) -> None:
    secret = "hunter2-s3cr3t"
    container.sagemaker()
    container.environment = {"API_TOKEN": secret}
    container.send(
        {
            "train.py": "import os; assert os.environ['API_TOKEN'] == 'hunter2-' + 's3cr3t'; raise KeyError('x')"
        }
    )
    done = container.carry_out()
    assert "KeyError" in container.failure
    assert secret not in done.stderr + done.stdout.decode()
    for path in container.ml.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_an_archive_of_the_output_folder_holds_what_the_ground_half_looks_for(
    container: Container, tmp_path: Path
) -> None:
    container.sagemaker()
    container.send({"train.py": ""})
    container.carry_out()
    with tarfile.open(tmp_path / "output.tar.gz", "w:gz") as tar:
        tar.add(container.ml / "output/data", arcname=".")
    with tarfile.open(tmp_path / "output.tar.gz") as tar:
        assert {"./gpuproof/algo-1/verdict.json", "./gpuproof/algo-1/run.json"} <= set(tar.getnames())
