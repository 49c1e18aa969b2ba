"""What a script finds when `gpuproof run` starts it."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox, nothing_new_in_opt

pytestmark = pytest.mark.journey

looks_at_opt = pytest.mark.xdist_group("opt")
"""These look at the host's /opt, where proot makes a folder for as long as it runs."""

REPORT = """
import json, os, socket, sys
print(json.dumps({
    "address": socket.gethostbyname("algo-1"), "localhost": socket.gethostbyname("localhost"),
    "argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ),
    "tree": sorted(os.path.join(d, f) for d, _, fs in os.walk("/opt/ml") for f in fs),
}))
"""


def test_a_bare_script_runs_and_its_arguments_arrive(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "import sys\nprint(sys.argv[1:])")
    done = sandbox.gpuproof("run", "train.py", "--", "--epochs", "5", "--name", "a b")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['--epochs', '5', '--name', 'a b']\n"
    assert "no-gpu-expected" in done.stderr


def test_the_script_finds_sagemakers_environment(sandbox: CliSandbox) -> None:
    sandbox.write("code/train.py", REPORT)
    sandbox.write("code/lib/__init__.py", "")
    sandbox.write("rows/a.csv", "1,2")
    sandbox.write(
        "gpuproof.yaml",
        "name: digits\nentry_point: train.py\nsource_dir: code\nframework: pytorch\ninstance_type: ml.g5.xlarge\n"
        "require_gpu: false\nhyperparameters: {epochs: 3, learning-rate: 0.1}\n"
        "inputs: {training: ./rows}\nenvironment: {WHO: me}\n",
    )
    done = sandbox.gpuproof("run", "-p", "epochs=5")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["argv"] == ["--epochs", "5", "--learning-rate", "0.1"]
    assert seen["address"] == seen["localhost"] == "127.0.0.1"
    assert seen["cwd"] == "/opt/ml/code"
    assert seen["tree"] == [
        "/opt/ml/code/lib/__init__.py",
        "/opt/ml/code/train.py",
        "/opt/ml/input/config/hyperparameters.json",
        "/opt/ml/input/config/inputdataconfig.json",
        "/opt/ml/input/config/resourceconfig.json",
        "/opt/ml/input/data/training/a.csv",
    ]
    env = seen["env"]
    assert env["SM_MODEL_DIR"] == "/opt/ml/model"
    assert env["SM_CHANNEL_TRAINING"] == "/opt/ml/input/data/training"
    assert env["SM_HPS"] == '{"epochs":5,"learning-rate":0.1}'
    assert env["SM_CURRENT_INSTANCE_TYPE"] == "ml.g5.xlarge"
    assert env["SM_FRAMEWORK_MODULE"] == "sagemaker_pytorch_container.training:main"
    assert env["TRAINING_JOB_NAME"].startswith("digits-")
    assert env["WHO"] == "me"


@looks_at_opt
def test_a_script_with_opt_ml_spelled_out_runs_unchanged(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "open('/opt/ml/model/w.bin', 'w').write('w')\nopen('/opt/ml/output/data/m.txt', 'w').write('1')",
    )
    before = os.listdir("/opt")
    result = sandbox.run_json("train.py")
    assert result["exit_code"] == 0
    folder = Path(result["folder"]) / "artifacts"
    with tarfile.open(folder / "model.tar.gz") as archive:
        assert archive.getnames() == ["w.bin"]
    with tarfile.open(folder / "output.tar.gz") as archive:
        assert archive.getnames() == ["m.txt"]
    nothing_new_in_opt(before)


def test_inputs_are_not_copied_and_cannot_be_written(sandbox: CliSandbox) -> None:
    sandbox.write("data/rows.csv", "1")
    sandbox.write("one.csv", "2")
    sandbox.write(
        "train.py",
        "import os\nd='/opt/ml/input/data/'\nprint(open(d+'training/rows.csv').read(), open(d+'extra/one.csv').read())\n"
        "try: open(d+'training/new','w')\nexcept OSError as e: print(e.strerror)",
    )
    done = sandbox.gpuproof("run", "train.py", "--input", "training=data", "--input", "extra=one.csv")
    assert done.stdout == "1 2\nRead-only file system\n", done.stderr
    assert not (sandbox.project / "data" / "new").exists()


def test_the_users_source_folder_stays_as_it_was(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "open('junk.txt', 'w').write('x'); import os; os.remove('train.py')")
    assert sandbox.gpuproof("run", "train.py").returncode == 0
    assert sorted(path.name for path in sandbox.project.iterdir()) == ["train.py"]


def test_a_processing_job_gets_its_inputs_and_delivers_its_outputs(sandbox: CliSandbox) -> None:
    sandbox.write("raw/a.txt", "hello")
    sandbox.write(
        "clean.py",
        "import sys, os\nprint(os.getcwd(), sys.argv[1:])\n"
        "text = open('/opt/ml/processing/input/a.txt').read()\n"
        "open('/opt/ml/processing/output/b.txt', 'w').write(text.upper())",
    )
    sandbox.write(
        "gpuproof.yaml",
        "kind: processing\nname: clean\nentry_point: clean.py\narguments: [--rows, '3']\n"
        "inputs: {/opt/ml/processing/input: ./raw}\noutputs: {/opt/ml/processing/output: ./done}\n",
    )
    done = sandbox.gpuproof("run")
    assert done.returncode == 0, done.stderr
    # The input covers the folder where SageMaker's own processors put the code: it is put beside it.
    assert done.stdout == "/opt/ml/processing/code ['--rows', '3']\n"
    assert (sandbox.project / "done" / "b.txt").read_text() == "HELLO"
    again = sandbox.gpuproof("run")
    assert again.returncode == 0, again.stderr


def test_a_processing_job_stands_where_sagemaker_puts_its_code(sandbox: CliSandbox) -> None:
    sandbox.write("raw/a.txt", "hello")
    (sandbox.project / "raw" / "dead").symlink_to("nowhere")
    sandbox.write(
        "clean.py",
        "import os; print(os.getcwd(), sorted(os.listdir('/opt/ml/processing/input/raw')))\n"
        "os.symlink('x', '/opt/ml/processing/output/link')",
    )
    sandbox.write(
        "gpuproof.yaml",
        "kind: processing\nname: clean\nentry_point: clean.py\ninputs: {raw: ./raw}\noutputs: {/opt/ml/processing/output: ./done}\n",
    )
    for _ in range(2):
        done = sandbox.gpuproof("run")
        assert done.stdout == "/opt/ml/processing/input/code ['a.txt', 'dead']\n", done.stderr
    assert (sandbox.project / "done" / "link").is_symlink()


def test_a_shell_script_is_started_as_the_toolkit_starts_it(sandbox: CliSandbox) -> None:
    # Without its execute bit, as a file from an archive or from Windows.
    sandbox.write("train.sh", '#!/bin/sh\necho "$SM_MODEL_DIR" "$@"\n').chmod(0o644)
    done = sandbox.gpuproof("run", "train.sh", "-p", "epochs=5")
    assert done.stdout == "/opt/ml/model --epochs 5\n", done.stderr


def test_without_namespaces_the_folders_come_through_the_environment_with_a_note(
    sandbox: CliSandbox,
) -> None:
    sandbox.write("data/rows.csv", "7")
    sandbox.write(
        "train.py",
        "import os\nprint(open(os.environ['SM_CHANNEL_TRAINING'] + '/rows.csv').read())\n"
        "open(os.environ['SM_MODEL_DIR'] + '/w', 'w').write('w')\nprint(os.environ['SM_MODEL_DIR'].startswith(os.environ['SAGEMAKER_BASE_DIR']))\n"
        "x = '/opt/ml/model'",
    )
    done = sandbox.gpuproof("run", "train.py", "--isolation", "environment", "--input", "training=data")
    assert done.stdout == "7\nTrue\n", done.stderr
    assert "hard-coded /opt/ml in train.py:5 will not work" in done.stderr
    assert (sandbox.newest() / "artifacts" / "model.tar.gz").exists()


@looks_at_opt
@pytest.mark.skipif(shutil.which("proot") is None, reason="proot is not installed (apt-get install proot)")
def test_proot_makes_opt_ml_private_where_namespaces_are_unavailable(sandbox: CliSandbox) -> None:
    sandbox.write("data/rows.csv", "7")
    sandbox.write(
        "train.py",
        "import os, socket\nprint(open('/opt/ml/input/data/training/rows.csv').read(), os.getcwd(), socket.gethostbyname('algo-1'))\n"
        "open('/opt/ml/model/w', 'w').write('w')\nopen('/opt/ml/checkpoints/c', 'w')\n",
    )
    before = os.listdir("/opt")
    done = sandbox.gpuproof("run", "train.py", "--isolation", "proot", "--input", "training=data")
    assert done.stdout == "7 /opt/ml/code 127.0.0.1\n", done.stderr
    assert (sandbox.newest() / "artifacts" / "model.tar.gz").exists()
    assert (sandbox.newest() / "checkpoints" / "c").exists()
    nothing_new_in_opt(before)


@pytest.mark.parametrize("name", ["with space", "qu'ote\"s", "new\nline", "ünïcödé", "$HOME;ls", "-dash"])
def test_weird_paths_work(sandbox: CliSandbox, name: str) -> None:
    folder = sandbox.project / name
    folder.mkdir()
    (folder / "data").mkdir()
    (folder / "data" / f"{name}.csv").write_text("1")
    (folder / "train.py").write_text(
        f"import os; print(os.listdir(os.environ['SM_CHANNEL_TRAINING']) == [{name + '.csv'!r}])"
    )
    sandbox.environment["XDG_STATE_HOME"] = str(folder / "state")
    (folder / ".gpuproofignore").write_text("state\n")
    done = sandbox.gpuproof("run", folder.absolute() / "train.py", "--input", f"training={folder / 'data'}")
    assert done.stdout == "True\n", done.stderr


def test_a_model_saved_in_the_wrong_place_is_named(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "open('model.h5', 'wb').write(b'x' * 10)")
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 0
    assert "/opt/ml/model is empty" in done.stderr
    assert "model.h5" in done.stderr


def test_artifacts_are_also_copied_to_the_jobs_output(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "open('/opt/ml/model/w', 'w').write('w')")
    sandbox.write("gpuproof.yaml", "entry_point: train.py\noutput: ./out\n")
    result = sandbox.run_json()
    assert (sandbox.project / "out" / result["run"]["id"] / "output" / "model.tar.gz").is_file()


def test_what_earlier_runs_brought_home_is_not_sent_along(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py", "import os; print(sorted(os.listdir('.'))); open('/opt/ml/model/w', 'w').write('w')"
    )
    sandbox.write("gpuproof.yaml", "entry_point: train.py\noutput: ./out\ncheckpoint: ./ckpt\n")
    first, second = sandbox.gpuproof("run"), sandbox.gpuproof("run")
    assert first.stdout == second.stdout == "['gpuproof.yaml', 'train.py']\n"
    assert (sandbox.project / "out").is_dir()


def test_a_link_from_the_model_to_a_checkpoint_brings_the_checkpoint_along(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import os\nopen('/opt/ml/checkpoints/best', 'w').write('weights')\n"
        "os.symlink('/opt/ml/checkpoints/best', '/opt/ml/model/best')",
    )
    assert sandbox.gpuproof("run", "train.py").returncode == 0
    with tarfile.open(sandbox.newest() / "artifacts" / "model.tar.gz") as archive:
        member = archive.extractfile("best")
        assert member is not None
        assert member.read() == b"weights"
