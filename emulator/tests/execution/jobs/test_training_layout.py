"""Instance groups and folders of a training job's instance."""

from __future__ import annotations

from pathlib import Path

from gpuproof_emulator.execution.jobs.training_layout import checkpoint_folder, instance_groups


def test_groups_of_instances_get_their_own_hosts() -> None:
    groups = [
        {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        {"InstanceGroupName": "cpu", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
    ]
    found = instance_groups({"ResourceConfig": {"InstanceGroups": groups}}, ["algo-1", "algo-2", "algo-3"])
    assert [(group["instance_group_name"], group["hosts"]) for group in found] == [
        ("gpu", ["algo-1"]),
        ("cpu", ["algo-2", "algo-3"]),
    ]


def test_checkpoints_outside_of_the_contract_have_no_place(tmp_path: Path) -> None:
    assert checkpoint_folder(tmp_path, {"LocalPath": "/opt/ml/my/checkpoints"}) == tmp_path / "my/checkpoints"
    assert checkpoint_folder(tmp_path, {}) == tmp_path / "checkpoints"
    assert checkpoint_folder(tmp_path, {"LocalPath": "/data"}) is None
