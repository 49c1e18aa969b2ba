"""The link from a job to its script through commands, shell scripts, Makefiles and Dockerfiles."""

from pathlib import Path

import pytest

from gpuproof.linter.jobs.definition import JobDefinition
from support.check_helpers import check_here, jobs_in, write_files

TRAIN = """
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader([]):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), "/opt/ml/model/model.pt")
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trainer(code: str, **keywords: str) -> str:
    more = "".join(f", {name}={value}" for name, value in keywords.items())
    return f"""
        from sagemaker.train import ModelTrainer
        from sagemaker.train.configs import Compute, SourceCode

        ModelTrainer(
            training_image="image",
            source_code=SourceCode(source_dir="src", {code}),
            compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1){more},
        ).train()
    """


def linked(tmp_path: Path, launcher: str, **files: str) -> JobDefinition:
    names = {name.replace("__", "/").replace("_DOT_", "."): text for name, text in files.items()}
    write_files(tmp_path, {"launch.py": launcher, "src/train.py": TRAIN, **names})
    return jobs_in(tmp_path, "launch.py")[0]


def codes(*paths: str) -> set[str]:
    return {hit.code for hit in check_here(*paths).hits} - {"SDK201", "SDK202", "IN104"}


@pytest.mark.parametrize(
    "code",
    [
        'command="python train.py --epochs 3"',
        'command=["python3", "train.py"]',
        'command=f"cd . && FOO=1 python train.py --n {count}"',
        'command="bash run.sh --x"',
        'command="make train"',
        'command="python -m train"',
        'command="python /opt/ml/input/data/code/train.py"',
        'command=" && ".join(["pip install x", "python train.py"])',
        'entry_script="run.sh"',
    ],
)
def test_idle_gpus_are_found_however_the_script_is_started(tmp_path: Path, code: str) -> None:
    linked(
        tmp_path,
        trainer(code),
        src__run_DOT_sh='#!/bin/bash\nset -e\npip install x\npython train.py "$@"\n',
        src__Makefile="train:\n\tpython train.py\n",
    )
    assert "DS101" in codes("launch.py")


def test_an_estimator_whose_shell_script_starts_python(tmp_path: Path) -> None:
    launcher = """
        from sagemaker.pytorch import PyTorch
        PyTorch(entry_point="run.sh", source_dir="src", instance_type="ml.g5.12xlarge", instance_count=1)
    """
    job = linked(tmp_path, launcher, src__run_DOT_sh="cd code\ntorchrun --nproc_per_node=4 ../train.py\n")
    assert job.script is not None
    assert job.start is not None
    assert job.start.launcher is not None
    assert (job.script.title, job.start.launcher.processes, job.passes_arguments) == ("train.py", 4, False)


@pytest.mark.parametrize(
    "request_",
    [
        'AlgorithmSpecification={"ContainerEntrypoint": ["python", "train.py"], "ContainerArguments": ["--x"]}',
        'AlgorithmSpecification={"ContainerEntrypoint": ["/bin/sh", "-c"], "ContainerArguments": ["python train.py"]}',
    ],
)
def test_the_entry_point_of_a_boto3_request(tmp_path: Path, request_: str) -> None:
    write_files(
        tmp_path,
        {
            "launch.py": f"""
                import boto3
                boto3.client("sagemaker").create_training_job(
                    TrainingJobName="x", ResourceConfig={{"InstanceType": "ml.g5.12xlarge", "InstanceCount": 1}}, {request_}
                )
            """,
            "train.py": TRAIN,
        },
    )
    assert "DS101" in codes("launch.py")


def test_a_processing_job_whose_code_is_a_shell_script(tmp_path: Path) -> None:
    launcher = """
        from sagemaker.processing import ScriptProcessor
        processor = ScriptProcessor(role="r", image_uri="i", command=["bash"], instance_count=1, instance_type="ml.g5.xlarge")
        processor.run(code="src/run.sh")
    """
    job = linked(tmp_path, launcher, src__run_DOT_sh="python src/train.py\n")
    assert job.script is not None


def test_a_gpuproof_yaml_whose_entry_point_is_a_shell_script(tmp_path: Path) -> None:
    yaml = "entry_point: run.sh\nsource_dir: src\ninstance_type: ml.g5.12xlarge\ndistribution: none\n"
    write_files(tmp_path, {"gpuproof.yaml": yaml, "src/run.sh": "python train.py\n", "src/train.py": TRAIN})
    assert "DS101" in codes("gpuproof.yaml")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ('command="python $SCRIPT"', "`$SCRIPT` is only known when the command runs"),
        ("command=build()", "its command is only known when the launcher runs"),
        ('command=f"python {script}"', "only known when the command runs"),
        ('command="python gone.py"', "`gone.py` is not here"),
        ('command="python -m axolotl.cli.train a.yml"', "a module that is not in this project"),
        ('command="bash run.sh"', "`$WHAT` is only known when the command runs (run.sh, line 2)"),
        ('command="./serve"', "starts no Python script"),
        ("entry_script=args.script", "only known when the launcher runs"),
    ],
)
def test_one_note_says_where_the_link_ends(tmp_path: Path, code: str, reason: str) -> None:
    write_files(tmp_path, {"launch.py": trainer(code), "src/run.sh": "set -e\npython $WHAT\n"})
    notes = [hit.finding.message for hit in check_here("launch.py").hits if hit.code == "SM126"]
    assert len(notes) == 1
    assert reason in notes[0]


def test_two_ways_to_start_a_script_are_no_finding(tmp_path: Path) -> None:
    linked(
        tmp_path,
        trainer('entry_script="run.sh"'),
        src__run_DOT_sh='if [ "$N" -gt 1 ]; then\n  torchrun --nproc_per_node=$N train.py\nelse\n  python train.py\nfi\n',
    )
    assert not codes("launch.py")


def test_what_one_script_does_not_do_another_may(tmp_path: Path) -> None:
    trains = TRAIN.replace('torch.save(model.state_dict(), "/opt/ml/model/model.pt")', "")
    job = trainer('command="torchrun --nproc_per_node=4 train.py && python export.py"')
    linked(
        tmp_path,
        job,
        src__train_DOT_py=trains + "    torch.distributed.init_process_group()\n",
        src__export_DOT_py="print(1)\n",
    )
    assert "SM102" not in codes("launch.py")


def test_a_launcher_is_checked_with_what_it_starts(tmp_path: Path) -> None:
    linked(
        tmp_path,
        trainer('command="python train.py"'),
        src__train_DOT_py="import helper\n",
        src__helper_DOT_py="x = (\n",
    )
    report = check_here("launch.py")
    assert report.files == 3
    assert [hit.span.unit.path for hit in report.hits if hit.code == "E901"] == ["src/helper.py"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "set -e\npython src/train.py\n"),
        ("start", "#!/bin/sh\nexec python src/train.py\n"),
        ("Makefile", "help:\n\techo\ntrain:\n\tpython src/train.py\n"),
        ("Dockerfile", 'FROM x\nWORKDIR /app\nCOPY src/ ./\nENTRYPOINT ["python", "train.py"]\n'),
        ("Dockerfile", "FROM x\nCOPY src/train.py /opt/ml/code/train.py\nENV SAGEMAKER_PROGRAM=train.py\n"),
    ],
)
def test_a_file_of_commands_is_checked_with_what_it_starts(tmp_path: Path, name: str, text: str) -> None:
    write_files(tmp_path, {name: text, "src/train.py": "x = (\n"})
    report = check_here(name)
    assert (report.files, [hit.code for hit in report.hits]) == (2, ["E901"])


def test_a_file_of_commands_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    write_files(tmp_path, {"run.sh": "set -e\n\npython $WHAT\n"})
    (hit,) = check_here("run.sh").hits
    assert (hit.code, hit.span.line) == ("SM126", 3)


def test_a_job_is_assumed_for_a_shell_script_and_an_instance_type(tmp_path: Path) -> None:
    from gpuproof.linter.project import Target

    write_files(tmp_path, {"run.sh": "python train.py\n", "train.py": TRAIN})
    report = check_here("run.sh", target=Target(instance_type="ml.g5.12xlarge"))
    assert "DS101" in {hit.code for hit in report.hits}


def test_hyperparameters_reach_the_script_through_the_arguments_of_a_shell_script(tmp_path: Path) -> None:
    text = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs')\nargs = parser.parse_args()\n"
    given = trainer('entry_script="run.sh"', hyperparameters='{"epochs": 3}')
    linked(tmp_path, given, src__train_DOT_py=text, src__run_DOT_sh='python train.py "$@"\n')
    assert not codes("launch.py")
    (tmp_path / "src/run.sh").write_text("python train.py\n")
    assert codes("launch.py") == {"SM107"}


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        ("#SBATCH --gres=gpu:4", 4),
        ("#SBATCH --gres=gpu:a100:8(S:0-1)", 8),
        ("#SBATCH -N 2\n#SBATCH --gpus=8", 4),
        ("#SBATCH --gpus-per-node h100:8", 8),
        ("#SBATCH -p gpu", None),
    ],
)
def test_the_gpus_of_a_slurm_script(tmp_path: Path, lines: str, gpus: int | None) -> None:
    write_files(tmp_path, {"job.sbatch": f"#!/bin/bash\n{lines}\nsrun python train.py\n", "train.py": TRAIN})
    (job,) = jobs_in(tmp_path, "job.sbatch")
    assert job.gpu_count.number == gpus
    assert ("DS101" in codes("job.sbatch")) == (gpus is not None)


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH --gpus-per-node=4\n#SBATCH --ntasks-per-node=4\nsrun python train.py\n",
        "#SBATCH --gpus-per-node=4\nsrun torchrun --nproc_per_node=4 train.py\n",
        "#SBATCH --gpus-per-node=1\nsrun python train.py\n",
    ],
)
def test_a_slurm_script_with_a_process_for_each_gpu(tmp_path: Path, text: str) -> None:
    trains = TRAIN + "    torch.distributed.init_process_group()\n"
    write_files(tmp_path, {"job.sh": f"#!/bin/bash\n{text}", "train.py": trains})
    report = check_here(".")
    assert not {hit.code for hit in report.hits} & {"DS101", "DS116", "SM126"}
    assert report.files == 2


DOCKERFILE = 'FROM x\nCOPY src /opt/program\nWORKDIR /opt/program\nENTRYPOINT ["python3", "train.py"]\n'


@pytest.mark.parametrize(
    ("image", "dockerfile", "is_linked"),
    [
        ('"111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"', DOCKERFILE, True),
        ('f"{account}.dkr.ecr.us-east-1.amazonaws.com/mine:1"', DOCKERFILE, True),
        (
            '"111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"',
            "FROM x\nCOPY src/train.py /opt/ml/code/\nENV SAGEMAKER_PROGRAM train.py\n",
            True,
        ),
        (
            '"763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312"',
            DOCKERFILE,
            False,
        ),
        ("image_uris.retrieve('xgboost', 'us-east-1')", DOCKERFILE, False),
    ],
)
def test_the_dockerfile_of_a_job_with_its_own_image(
    tmp_path: Path, image: str, dockerfile: str, is_linked: bool
) -> None:
    launcher = f"""
        from sagemaker import image_uris
        from sagemaker.estimator import Estimator
        Estimator(image_uri={image}, role="r", instance_type="ml.g5.12xlarge", instance_count=1).fit()
    """
    job = linked(tmp_path, launcher, Dockerfile=dockerfile)
    assert (job.script is not None) == is_linked
    assert ("DS101" in codes("launch.py")) == is_linked


def test_the_program_train_of_an_image(tmp_path: Path) -> None:
    launcher = """
        from sagemaker.estimator import Estimator
        Estimator("1.dkr.ecr.us-east-1.amazonaws.com/mine", "r", 1, "ml.g5.12xlarge").fit()
    """
    write_files(
        tmp_path,
        {
            "launch.py": launcher,
            "Dockerfile": 'FROM x\nENV PATH="/opt/program:${PATH}"\nCOPY trees /opt/program\nWORKDIR /opt/program\n',
            "trees/train": "#!/usr/bin/env python\n" + TRAIN.replace("\n    ", "\n"),
        },
    )
    assert "DS101" in codes("launch.py")


@pytest.mark.parametrize(
    "call",
    [
        'subprocess.run([sys.executable, "train.py", "--epochs", str(3)], check=True)',
        'subprocess.check_call(["python", args.entry])',
        'os.system(f"python train.py --epochs {args.epochs}")',
        'command = ["python", "-u", "train.py"]\nsubprocess.Popen(command)',
        'subprocess.run("cd . && python train.py", shell=True)',
        'import runpy\nrunpy.run_path("train.py")',
    ],
)
def test_a_python_script_that_starts_another(tmp_path: Path, call: str) -> None:
    text = f"import argparse, os, subprocess, sys\nparser = argparse.ArgumentParser()\nparser.add_argument('-e', '--entry')\nparser.add_argument('--epochs')\nargs = parser.parse_args()\n{call}\n"
    linked(tmp_path, trainer('command="python start.py -e train.py"'), src__start_DOT_py=text)
    report = check_here("launch.py")
    assert "DS101" in {hit.code for hit in report.hits}
    assert report.files == 3


def test_a_python_script_that_starts_one_process_per_gpu(tmp_path: Path) -> None:
    text = 'import subprocess\nsubprocess.run(["torchrun", "--nproc_per_node=4", "train.py"])\nsubprocess.run(["nvidia-smi"])\n'
    trains = TRAIN + "    torch.distributed.init_process_group()\n"
    linked(tmp_path, trainer('entry_script="start.py"'), src__start_DOT_py=text, src__train_DOT_py=trains)
    assert not codes("launch.py") & {"DS101", "DS116", "DS118", "SM126", "DS123"}


def test_the_end_of_the_link_in_a_python_script(tmp_path: Path) -> None:
    text = 'import subprocess, sys\nsubprocess.run([sys.executable, "-m", "pip", "install", "x"])\nsubprocess.run([sys.executable, choose()])\n'
    linked(tmp_path, trainer('entry_script="start.py"'), src__start_DOT_py=text)
    (note,) = [hit.finding.message for hit in check_here("launch.py").hits if hit.code == "SM126"]
    assert "(start.py, line 3)" in note


def test_a_missing_entry_point_is_reported_once(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"gpuproof.yaml": "entry_point: trian.py\ninstance_type: ml.g5.xlarge\n", "train.py": TRAIN}
    )
    assert [hit.code for hit in check_here("gpuproof.yaml").hits] == ["E901"]
    linked(tmp_path, trainer('entry_script="trian.py"'))
    assert [hit.code for hit in check_here("launch.py").hits if hit.code.startswith("SM")] == ["SM123"]


def test_the_folders_of_a_processing_job_in_gpuproof_yaml(tmp_path: Path) -> None:
    yaml = "kind: processing\nentry_point: clean.py\ninstance_type: ml.g5.xlarge\ninputs:\n  raw: s3://bucket/raw\noutputs:\n  /opt/ml/processing/out: s3://bucket/out\n"
    text = (
        'import shutil\nshutil.copy("/opt/ml/processing/input/rows/a.csv", "/opt/ml/processing/out/a.csv")\n'
    )
    write_files(tmp_path, {"gpuproof.yaml": yaml, "clean.py": text})
    (job,) = jobs_in(tmp_path, "gpuproof.yaml")
    assert [mount.path.text for mount in (*(job.inputs or ()), *(job.outputs or ()))] == [
        "/opt/ml/processing/input/raw",
        "/opt/ml/processing/out",
    ]
    assert "SM113" in codes(".")
    (tmp_path / "clean.py").write_text(text.replace("rows", "raw"))
    assert not codes(".")


@pytest.mark.parametrize(
    ("text", "is_silent"),
    [
        ('hp = json.load(open("/opt/ml/input/config/hyperparameters.json"))', True),
        ('hp = json.loads((Path("/opt/ml") / "input/config" / "hyperparameters.json").read_text())', True),
        ('epochs = int(os.environ["SM_HP_EPOCHS"])', True),
        ('hp = json.loads(os.environ["SM_HPS"])', True),
        ("hp = environment.Environment().hyperparameters", True),
        ("epochs = 3", False),
    ],
)
def test_the_ways_to_read_hyperparameters(tmp_path: Path, text: str, is_silent: bool) -> None:
    imports = (
        "import json, os\nfrom pathlib import Path\nfrom sagemaker_training import environment\n"
        if is_silent
        else ""
    )
    for entry in ('"sagemaker_program": "train.py", ', ""):
        command = "" if entry else ', "ContainerEntrypoint": ["python", "train.py"]'
        write_files(
            tmp_path,
            {
                "launch.py": f"""
                    import boto3
                    boto3.client("sagemaker").create_training_job(
                        TrainingJobName="x", ResourceConfig={{"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}},
                        AlgorithmSpecification={{"TrainingImage": "image"{command}}},
                        HyperParameters={{{entry}"epochs": "3"}},
                    )
                """,
                "train.py": f"{imports}{text}\n",
            },
        )
        assert ("SM107" not in codes("launch.py")) == is_silent


def test_a_loop_around_the_only_start_is_no_alternative(tmp_path: Path) -> None:
    script = 'cd "$(dirname "$0")"\nfor seed in 1 2; do\n  python train.py --seed $seed\ndone\n'
    linked(tmp_path, trainer('command="bash -x run.sh small"'), src__run_DOT_sh=script)
    assert "DS101" in codes("launch.py")


def test_hyperparameters_that_one_of_several_scripts_reads(tmp_path: Path) -> None:
    given = trainer('entry_script="start.py"', hyperparameters='{"epochs": 3}')
    reads = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs')\nargs = parser.parse_args()\n"
    linked(
        tmp_path,
        given,
        src__start_DOT_py="import runpy\nrunpy.run_path('train.py')\n",
        src__train_DOT_py=reads,
    )
    assert "SM107" not in codes("launch.py")


def test_a_job_of_a_shell_script_is_where_the_script_is_started(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "src/train.py": TRAIN,
            "run.sh": "#!/bin/bash\nset -e\nexport A=1\ntorchrun --nproc_per_node=4 src/train.py\n",
            "outer.sh": "#!/bin/bash\nset -e\n\n\nbash run.sh\n",
        },
    )
    lines = {name: jobs_in(tmp_path, name)[0].span.line for name in ("run.sh", "outer.sh")}
    assert lines == {"run.sh": 4, "outer.sh": 1}
