from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.backends.ec2.user_data import LARGEST, user_data
from gpuproof.errors import InvalidJob


def parameters(**changes: Any) -> HostParameters:
    usual = {
        "run_id": "run-1",
        "region": "us-east-1",
        "bucket": "bucket",
        "prefix": "gpuproof/runs/run-1/",
        "kind": "training",
        "agent_sha256": "00" * 32,
        "max_duration": 1000.0,
        "instance_type": "g5.xlarge",
    }
    return HostParameters(**{**usual, **changes})


def test_user_data_is_valid_bash_and_starts_with_the_watchdog() -> None:
    script = user_data(parameters())
    subprocess.run(["bash", "-n"], input=script.encode(), check=True)
    assert script.startswith("#!/bin/bash\n")
    assert (
        script.index("\nsetsid bash") < script.index("\nparameters=") < script.index("aws s3 cp --recursive")
    )


def test_names_with_quotes_reach_the_program_unchanged(tmp_path: Path) -> None:
    given = parameters(inputs={"input/data/it's": 's3://bucket/$(touch x) `y` "z"\\'})
    script = user_data(given)
    (line,) = (line for line in script.splitlines() if line.startswith("parameters="))
    shown = subprocess.run(
        ["bash", "-c", f'{line}\nprintf %s "$parameters"'], capture_output=True, check=True, cwd=tmp_path
    )
    (tmp_path / "parameters.json").write_bytes(shown.stdout)
    assert HostParameters.read(tmp_path / "parameters.json") == given
    assert json.loads(shown.stdout)["inputs"] == given.inputs


def test_user_data_that_ec2_would_reject_is_an_error() -> None:
    many = {f"input/data/channel-{number}": "s3://bucket/" + "x" * 200 for number in range(100)}
    with pytest.raises(InvalidJob, match=f"EC2 accepts {LARGEST}"):
        user_data(parameters(inputs=many))
    assert len(user_data(parameters())) < LARGEST / 2


def test_a_failure_before_the_program_is_reported_under_the_name_of_the_host(tmp_path: Path) -> None:
    script = user_data(parameters(hosts=("algo-1", "algo-2")))
    begin = script.index("launch_index() {")
    functions = script[begin : script.index("functions=$(")]
    (tmp_path / "curl").write_text(
        '#!/bin/sh\ncase "$*" in *ami-launch-index) echo 1;; *) echo token;; esac\n'
    )
    (tmp_path / "aws").write_text(f'#!/bin/sh\necho "$5" >> {tmp_path}/uploaded\n')
    for program in ("curl", "aws"):
        (tmp_path / program).chmod(0o755)
    settings = f"state={tmp_path} hosts_uri=s3://bucket/hosts PATH={tmp_path}:$PATH"
    for hosts in (2, 1):
        shell = f"{functions}\n{settings} hosts={hosts}\nreport 'no network'\n"
        subprocess.run(["bash", "-c", shell], check=True)
    # Of several hosts, one that does not know its name does not report under the name of another.
    (tmp_path / "curl").write_text("#!/bin/sh\nexit 7\n")
    subprocess.run(["bash", "-c", f"{functions}\n{settings} hosts=2\nreport 'no network'\n"], check=False)
    assert (tmp_path / "uploaded").read_text().splitlines() == [
        "s3://bucket/hosts/algo-2/end.json",
        "s3://bucket/hosts/algo-1/end.json",
    ]
    written = [json.loads(file.read_text()) for file in tmp_path.glob("end.*.json")]
    assert [end["failure_reason"] for end in written] == ["no network", "no network"]


OLD = '#!/bin/sh\n[ "$1" = -c ] && exit 1\n'
"""A Python 3.7, as far as the test of its version goes."""


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        pytest.param({"python3": OLD, "python3.10": ""}, "python3.10", id="Amazon Linux 2"),
        pytest.param({"python3": "", "python3.10": OLD}, "python3", id="the system's"),
        pytest.param({"python3.10": ""}, "python3.10", id="no python3"),
        pytest.param({"python3": OLD}, None, id="an old one only"),
    ],
)
def test_the_program_runs_with_the_first_python_that_is_new_enough(
    present: dict[str, str], chosen: str | None, tmp_path: Path
) -> None:
    script = user_data(parameters())
    begin = script.index("python=\n")
    search = script[begin : script.index("\n[[ $python ]]", begin)].replace("/usr/bin/", f"{tmp_path}/")
    for name, text in present.items():
        if text:
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        else:
            (tmp_path / name).symlink_to(sys.executable)
    done = subprocess.run(
        ["/bin/bash", "-c", f'pythons=()\n{search}\nprintf %s "$python"'],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/nowhere"},
    )
    assert done.stdout == (f"{tmp_path}/{chosen}" if chosen else "")
