"""What commands start, in every form that people write."""

import pytest

from gpuproof.linter.jobs.commands.launchers import Launcher
from gpuproof.linter.jobs.commands.programs import Start, read_text, read_words


def only(text: str) -> Start:
    starts = list(read_text(text))
    assert len(starts) == 1, starts
    return starts[0]


@pytest.mark.parametrize(
    ("command", "program", "arguments"),
    [
        ("python train.py --epochs 3", "train.py", ("--epochs", "3")),
        ("python3.11 -u -W ignore train.py", "train.py", ()),
        ("/opt/conda/bin/python -m pip install x && exec python fit.py | tee log.txt", "fit.py", ()),
        ("timeout 3h nice -n 5 python fit.py 2>&1", "fit.py", ()),
        ("conda run -n torch --no-capture-output python fit.py", "fit.py", ()),
        ("uv run fit.py --a", "fit.py", ("--a",)),
        ("bash -lc 'source activate x; python fit.py \"two words\"'", "fit.py", ("two words",)),
        ("SCRIPT=fit.py\nLR=${LR:-0.1}\npython ${SCRIPT} --lr $LR", "fit.py", ("--lr", "0.1")),
        ("python \\\n  fit.py \\\n  --x 1", "fit.py", ("--x", "1")),
        ("cat > note.py <<EOF\npython other.py\nEOF\npython fit.py", "fit.py", ()),
        ("# python old.py\npython fit.py  # and more", "fit.py", ()),
        ("python fit.py --a >  >(tee -a log.txt) 2>&1", "fit.py", ("--a",)),
        ("python fit.py --names <(sort names.txt) --b", "fit.py", ("--names", "/dev/fd/63", "--b")),
        ("run() {\n  python fit.py\n}\nrun", "fit.py", ()),
        ("(cd / ; true) && nohup python fit.py > out.txt 2>&1 &", "fit.py", ()),
        ("gpuproof watch --stall-timeout 1h -- python fit.py --a", "fit.py", ("--a",)),
        ("python -m gpuproof watch python fit.py", "fit.py", ()),
        ('exec python code/gpuproof-agent.pyz watch --to "$TO" -- python fit.py "$@"', "fit.py", ("$@",)),
    ],
)
def test_the_script_behind_wrappers_and_shell_syntax(
    command: str, program: str, arguments: tuple[str, ...]
) -> None:
    starts = [start for start in read_text(command) if start.kind == "python"]
    assert [(start.program, start.arguments) for start in starts] == [(program, arguments)]


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("torchrun train.py", Launcher("torchrun", 1, None, 1, "--nproc_per_node")),
        (
            "torchrun --standalone --nproc_per_node 4 train.py",
            Launcher("torchrun", 4, None, 1, "--nproc_per_node"),
        ),
        (
            "torchrun --nnodes=2 --nproc-per-node=gpu train.py",
            Launcher("torchrun", None, None, 2, "--nproc_per_node"),
        ),
        (
            "python -m torch.distributed.run --nproc_per_node=$N train.py",
            Launcher("torchrun", None, None, 1, "--nproc_per_node", is_known=False),
        ),
        (
            "accelerate launch --multi_gpu --num_processes 8 --mixed_precision bf16 train.py",
            Launcher("accelerate", None, 8, 1, "--num_processes"),
        ),
        (
            "deepspeed --num_gpus=8 train.py --deepspeed ds.json",
            Launcher("deepspeed", 8, None, 1, "--num_gpus"),
        ),
        ("deepspeed --include localhost:0,1 train.py", Launcher("deepspeed", 2, None, 1, "--include")),
        (
            "mpirun --allow-run-as-root -np 4 -x PATH -H a:2,b:2 python train.py",
            Launcher("mpi", None, 4, None, "-np"),
        ),
        (
            "srun --ntasks-per-node=4 --container-image=x python train.py",
            Launcher("srun", 4, None, None, "--ntasks-per-node"),
        ),
    ],
)
def test_a_launcher_and_its_number_of_processes(command: str, launcher: Launcher) -> None:
    start = only(command)
    assert (start.program, start.launcher) == ("train.py", launcher)


def test_a_module_is_started_by_name() -> None:
    start = only("torchrun --nproc_per_node=2 -m pkg.train --x")
    assert (start.kind, start.program, start.arguments) == ("module", "pkg.train", ("--x",))


def test_folders_and_variables_of_a_command() -> None:
    start = only("export A=1\ncd src && CUDA_VISIBLE_DEVICES=0,1 python train.py")
    assert start.folder == "src"
    assert start.environment == {"A": "1", "CUDA_VISIBLE_DEVICES": "0,1"}


def test_commands_in_branches_may_not_run() -> None:
    text = 'if [ $N -gt 1 ]; then\n  torchrun --nproc_per_node=$N a.py "$@"\nelse\n  python a.py "$@"\nfi\npython b.py'
    assert [(start.program, start.is_conditional, start.line) for start in read_text(text)] == [
        ("a.py", True, 2),
        ("a.py", True, 4),
        ("b.py", False, 6),
    ]
    cases = "case $1 in\n  train) python a.py ;;\n  *) python b.py ;;\nesac"
    assert [(start.program, start.is_conditional) for start in read_text(cases)] == [
        ("a.py", True),
        ("b.py", True),
    ]


@pytest.mark.parametrize(
    "command", ["python $SCRIPT", 'python "$@"', "python a_$i.py", "torchrun $(which_script)"]
)
def test_a_script_that_depends_on_a_variable_is_unknown(command: str) -> None:
    assert only(command).kind == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi",
        "pip install torch",
        "python -c 'import x'",
        "gpuproof watch --pid 7",
        "echo '",
        "echo $(",
        "a `",
        "",
    ],
)
def test_other_commands_start_no_script(command: str) -> None:
    assert list(read_text(command)) == []


def test_a_list_of_words_is_a_command_without_a_shell() -> None:
    assert next(read_words(["python3", "train.py", "a;b"])).arguments == ("a;b",)
    assert next(read_words(["/bin/bash", "-c", "cd x && python train.py"])).folder == "x"


@pytest.mark.parametrize(
    "text",
    [
        'COMMAND="torchrun --nproc_per_node $N train.py"\n$COMMAND --x',
        'command="torchrun --nproc_per_node=4 train.py \\\n  --a b"\nif [ -n "$L" ]; then\n  command="$command --log"\nfi\neval $command',
        'ARGS=(\n  --nnodes 1\n  --nproc_per_node "$(nproc)"\n)\ntorchrun "${ARGS[@]}" train.py',
        'launch() {\n  base="torchrun --nnodes 1 train.py"\n  $base\n}\nCUDA_VISIBLE_DEVICES=$G launch',
    ],
)
def test_commands_in_variables(text: str) -> None:
    start = only(text)
    assert (start.program, start.launcher.name if start.launcher else None) == ("train.py", "torchrun")


def test_make_without_a_target() -> None:
    assert (only("make").kind, only("make").arguments) == ("make", ())
