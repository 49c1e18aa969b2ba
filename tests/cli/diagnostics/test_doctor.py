"""`gpuproof doctor`, as a person types it."""

import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.cli.main import main
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.nvml import count_gpus
from support.doctor_machines import SCENARIOS, build_machine, read_scenario

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpuproof.settings.cache_dir", lambda: tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def gpuproof(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["doctor", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Machine]:
    """Makes the doctor examine the machine of a scenario."""

    def build(name: str) -> Machine:
        machine = build_machine(read_scenario(SCENARIOS / name), tmp_path / "machine", tmp_path / "libraries")
        # A copy each time: what a machine has read, it keeps.
        monkeypatch.setattr("gpuproof.cli.diagnostics.doctor._machine", lambda _: replace(machine))
        return machine

    return build


@pytest.fixture
def on(gpuproof: Run, put: Callable[[str], Machine]) -> Run:
    """The same on the machine of a scenario."""

    def run(name: str, *words: str) -> tuple[int, str, str]:
        put(name)
        return gpuproof(*words)

    return run


no_gpu_here = pytest.mark.skipif(count_gpus() > 0, reason="there is a GPU here")


@no_gpu_here
def test_without_a_gpu_it_is_undecided_and_names_an_instance(gpuproof: Run) -> None:
    code, out, err = gpuproof("--quick")
    assert (code, err) == (3, "")
    assert "D101" in out
    assert "gpuproof gpus" in out
    assert out.splitlines()[-1] == "Nothing to check: this machine has no GPU."


@no_gpu_here
def test_quick_imports_neither_boto3_nor_a_framework() -> None:
    program = (
        "import sys; from gpuproof.cli.main import main; main(['doctor', '--quick'])\n"
        "heavy = {'boto3', 'botocore', 'pydantic', 'yaml', 'torch', 'tensorflow', 'numpy', 'pynvml'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_a_sound_machine_is_exit_code_0_with_a_line_a_layer(on: Run) -> None:
    code, out, _ = on("sound_torch")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[:5]] == [
        ["ok", "hardware"],
        ["ok", "driver"],
        ["ok", "libraries"],
        ["ok", "framework"],
        ["ok", "compute"],
    ]
    assert "matmul and convolution correct in float32, float16 and bfloat16 on 1 GPU" in out


def test_an_error_is_exit_code_1_with_what_to_type(on: Run) -> None:
    code, out, _ = on("default_torch_on_an_older_driver_quick")
    assert code == 1
    assert "D410 error" in out
    assert "-> pip install torch==2.11.0+cu126 --index-url https://download.pytorch.org/whl/cu126" in out
    assert "skipped: depends on framework, which failed" in out


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_count_when_strict(words: tuple[str, ...], code: int, on: Run) -> None:
    assert on("two_frameworks_one_cudnn", *words)[0] == code


def test_severity_hides_what_is_below_it(on: Run) -> None:
    code, out, _ = on("two_frameworks_one_cudnn", "--severity", "error")
    assert code == 0
    assert "D419" not in out
    assert "1 not shown" in out


def test_json_and_junit_are_for_programs(on: Run) -> None:
    code, out, _ = on("torch_cpu_quick", "--format", "json")
    document = json.loads(out)
    assert (code, document["version"], document["exit_code"]) == (1, 1, 1)
    assert document["findings"][0]["code"] == "D402"


def test_junit_has_the_failure(on: Run) -> None:
    _, out, _ = on("torch_cpu_quick", "--format", "junit")
    root = ElementTree.fromstring(out)
    assert [failure.get("type") for failure in root.iter("failure")] == ["D402"]


def test_a_report_is_markdown(on: Run) -> None:
    _, out, _ = on("torch_cpu_quick", "--report")
    assert out.startswith("### gpuproof doctor --quick\n")
    assert "**D402 error**" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--quick", "--full"),
        ("--format", "yaml"),
        ("--severity", "bad"),
    ],
)
def test_words_that_are_none_are_wrong_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *words]) == 2
    assert "gpuproof doctor" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--report", "--format", "json"),
        ("--fix", "--format", "json"),
        ("--fix", "--report"),
        ("--yes",),
        ("--python", "/no/such/python"),
    ],
)
def test_words_that_do_not_go_together_are_wrong_usage(words: tuple[str, ...], gpuproof: Run) -> None:
    code, out, err = gpuproof(*words)
    assert (code, out) == (2, "")
    assert err


def test_fix_shows_what_it_would_do_and_without_a_yes_does_nothing(
    on: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, out, err = on("torch_cpu_quick", "--fix")
    assert code == 1
    assert "-m pip install torch==2.11.0+cu130" in out
    assert "nothing was changed" in err


def test_fix_does_what_it_showed_and_checks_again(
    gpuproof: Run, put: Callable[[str], Machine], tmp_path: Path
) -> None:
    python = Path(put("torch_cpu_quick").python)
    # The scenario's interpreter also stands for pip: it records its arguments and has the other build afterwards.
    arguments, better = tmp_path / "arguments", SCENARIOS / "sound_torch" / "probes" / "packages.jsonl"
    pip = f'if [ $1 = -m ]; then echo "$@" > {arguments}; cp {better} {tmp_path}/machine/probes/packages.jsonl; exit; fi'
    python.write_text(python.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{pip}\n"))
    code, out, _ = gpuproof("--fix", "--yes")
    assert arguments.read_text().startswith("-m pip install torch==2.11.0+cu130")
    assert "PyTorch 2.11.0+cu130" in out.partition("Checking again")[2]
    assert code == 0


def test_a_fix_that_fails_is_reported(gpuproof: Run, put: Callable[[str], Machine]) -> None:
    python = Path(put("torch_cpu_quick").python)
    python.write_text(python.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n[ $1 = -m ] && exit 9\n"))
    code, _, err = gpuproof("--fix", "--yes")
    assert code == 1
    assert "failed; see its output above" in err


def test_fix_states_why_it_does_nothing(on: Run) -> None:
    code, _, err = on("driver_updated_not_rebooted", "--fix")
    assert code == 1
    assert "--fix cannot fix any of these" in err


def test_it_is_listed_among_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "doctor" in capsys.readouterr().out
