"""Notebook instances in a gpuproof.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs.load import load, load_as
from gpuproof.jobs.spec_notebook import NotebookJob
from gpuproof.units import Duration


def test_a_file_describes_a_notebook_instance(tmp_path: Path) -> None:
    path = tmp_path / "gpuproof.yaml"
    path.write_text(
        "kind: notebook\nname: nb\ninstance_type: ml.g5.xlarge\nfallbacks: [ml.g6.xlarge, ml.g5.xlarge]\n"
    )
    job = load_as(path, None, NotebookJob)
    assert job.instance_types == ("ml.g5.xlarge", "ml.g6.xlarge")
    assert (job.idle_timeout, job.root_access, job.volume_size) == (Duration(3600), False, 50)
    with pytest.raises(UsageError, match="a notebook instance") as error:
        load(path)
    assert "gpuproof notebook create" in (error.value.remedy or "")


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"idle_timeout": "1m"}, "less than 5"),
        ({"internet_access": False}, "subnet"),
        ({"security_groups": ["sg-1"]}, "subnet"),
        ({"volume_size": 4}, "volume_size"),
        ({"platform": "windows"}, "notebook-al2023-v1"),
        ({"subnets": ["subnet-1"]}, "write subnet"),
        ({"max_duration": "8h"}, "idle_timeout"),
    ],
)
def test_what_is_invalid_is_named(keys: dict[str, object], part: str) -> None:
    with pytest.raises(InvalidJob, match=part):
        NotebookJob(name="nb", instance_type="ml.g5.xlarge", **keys)


def test_never_to_stop_has_to_be_written() -> None:
    assert NotebookJob(name="nb", instance_type="ml.g5.xlarge", idle_timeout=None).idle_timeout is None
