"""The memory of a check is bounded, whatever the files contain: data, texts that double, lists inside lists."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.linter.engine import check_paths
from gpuproof.linter.registry import indexed_entries
from support.check_helpers import write_files

HEAD = "from sagemaker.pytorch import PyTorch\n"
USE = '\nPyTorch(entry_point=s, instance_type="g5.xlarge", hyperparameters={"a": s})\n'
ALIASES = "a: &a [x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 8)}]\n"
    for before, after in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)
FILES = {
    "numbers.py": f"{HEAD}s = [{'1, ' * 3_000_000}]\n{USE}",
    "pairs.py": f"{HEAD}s = [{'[1, 2], ' * 900_000}]\n{USE}",
    "lines.py": HEAD + "s = [\n" + "1,\n" * 3_000_000 + "]\n" + USE,
    "doublings.py": HEAD + f's = "{"x" * 60_000}"\n' + "s = s + s\n" * 20 + USE,
    "starts.py": HEAD
    + f'import settings\nlong = "{"x" * 60_000}"\ns0 = settings.read()\n'
    + "".join(f"s{n + 1} = long + s{n}\nPyTorch(entry_point=s{n + 1})\n" for n in range(300))
    + "s = s0\n"
    + USE,
    "texts.py": HEAD
    + f'long = "{"x" * 60_000}"\n'
    + "".join(f's{n} = long + "{n}"\nPyTorch(entry_point=s{n})\n' for n in range(3000))
    + "s = s0\n"
    + USE,
    "template.json": json.dumps(
        {"Resources": {"m": {"Type": "AWS::SageMaker::Model", "Properties": {"x": [1] * 900_000}}}}
    ),
    "main.tf": f'resource "aws_sagemaker_model" "m" {{\n  a = [{"1, " * 900_000}]\n}}\n',
    "aliases.yaml": f"TrainingJobName: x\nInstanceType: ml.g5.xlarge\n{ALIASES}",
    "resources.yaml": f"{ALIASES}Resources:\n  A:\n    Type: AWS::SageMaker::Model\n    Properties: {{x: *m}}\n",
}
CHECK = """
import sys
from gpuproof.linter.engine import check_paths
codes = {hit.code for hit in check_paths(sys.argv[1:]).hits}
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0], *sorted(codes))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", FILES)
def test_the_peak_is_below_half_a_gigabyte(name: str, tmp_path: Path) -> None:
    write_files(tmp_path, {name: FILES[name]})
    # The process's own peak: that of getrusage includes what its parent had when it started the child.
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    kilobytes, *codes = done.stdout.split()
    assert int(kilobytes) < 400_000
    # What is not data is still checked.
    assert "IN102" in codes or not name.endswith(".py")


def test_different_nested_lists_are_compared_quickly(tmp_path: Path) -> None:
    def doubled(name: str) -> str:
        return f"{name}0 = ['x']\n" + "".join(f"{name}{n + 1} = [{name}{n}, {name}{n}]\n" for n in range(60))

    write_files(
        tmp_path,
        {"a.py": f"{HEAD}import o\n{doubled('a')}{doubled('b')}s = a60 if o.x else b60\n{USE}"},
    )
    assert check_paths([str(tmp_path)]).hits


def test_a_rule_that_cannot_be_imported_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(
        tmp_path,
        {
            "launch.py": f'{HEAD}PyTorch(entry_point="train.py", instance_type="g5.xlarge")\n',
            "broken.py": "x = (",
        },
    )
    entries = {entry.code: entry for entry in indexed_entries()}
    for code in ("E901", "IN101", "FW110"):
        monkeypatch.delitem(entries[code].__dict__, "rule", raising=False)
        monkeypatch.setattr(entries[code], "module", "missing")
    report = check_paths([str(tmp_path)])
    assert "IN102" in {hit.code for hit in report.hits}
    assert {code for error in report.internal_errors for code in error.rules} == {"E901", "IN101", "FW110"}
