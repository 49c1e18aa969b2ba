"""The arguments that a job passes are evidence about its script."""

from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", instance_count=1, instance_type="{}", hyperparameters={}).fit()
"""
SCRIPT = """
import argparse
import torch

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()

def main():
    args = parse()
    device = torch.device(args.device)
    torch.nn.Linear(1, 1).to(device)

main()
"""


def codes(folder: Path, files: dict[str, str], *select: str) -> list[str]:
    write_files(folder, files)
    report = check_paths([str(folder)], CheckOptions(Selection(select=select)))
    assert not report.internal_errors
    return [hit.code for hit in report.hits]


def test_the_default_of_an_argument_that_the_only_job_does_not_pass_is_its_value(tmp_path: Path) -> None:
    launch = LAUNCH.format("ml.m5.xlarge", "{}")
    assert codes(tmp_path, {"launch.py": launch, "train.py": SCRIPT}, "IN104") == ["IN104"]
    other = LAUNCH.format("ml.g5.xlarge", '{"device": "cpu"}')
    assert codes(tmp_path, {"other.py": other}, "IN104") == []


def test_the_value_that_the_only_job_passes_counts(tmp_path: Path) -> None:
    for passed in ('{"device": "cpu"}', "choose()", '{"device": device}'):
        launch = LAUNCH.format("ml.m5.xlarge", passed)
        assert codes(tmp_path, {"launch.py": launch, "train.py": SCRIPT}, "IN104") == []


def test_a_positional_argument_after_a_switch_may_have_a_value(tmp_path: Path) -> None:
    script = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data')\n"
        "parser.add_argument('--fast', action='store_true')\nparser.parse_args()\n"
    )
    files = {"launch.py": LAUNCH.format("ml.m5.xlarge", '{"fast": "s3"}'), "train.py": script}
    assert codes(tmp_path, files, "SM127") == []
    files = {"launch.py": LAUNCH.format("ml.m5.xlarge", "{}"), "train.py": script}
    assert codes(tmp_path, files, "SM127") == ["SM127"]


def test_a_job_in_a_settings_file_is_reported_there(tmp_path: Path) -> None:
    launch = (
        "import yaml\nfrom sagemaker.pytorch import PyTorch\njob = yaml.safe_load(open('job.yaml'))\n"
        "PyTorch(entry_point='train.py', **job['cluster']).fit()\n"
    )
    settings = "cluster:\n  instance_count: 1\n  instance_type: p3.2xlarge\n"
    write_files(tmp_path, {"launch.py": launch, "job.yaml": settings})
    [hit] = check_paths([str(tmp_path)], CheckOptions(Selection(select=("IN102",)))).hits
    assert (Path(hit.span.unit.path).name, hit.span.line) == ("job.yaml", 3)
    assert hit.finding.severity is Severity.ERROR
