"""The instance of a watched program, by firmware files and a metadata service on loopback."""

from __future__ import annotations

import json
from pathlib import Path

from gpuproof.watch.instance import find_instance
from gpuproof.watch.report import Instance
from support.aws_loopback import MetadataService

SERVICE = {
    "meta-data/instance-type": "g5.xlarge",
    "meta-data/placement/region": "eu-west-1",
    "meta-data/instance-life-cycle": "spot",
}


def firmware(folder: Path, vendor: str, product: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "sys_vendor").write_text(f"{vendor}\n")
    (folder / "product_name").write_text(f"{product}\n")
    return folder


def test_the_metadata_service_knows_type_region_and_life_cycle(tmp_path: Path) -> None:
    with MetadataService(SERVICE) as service:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url, "AWS_REGION": "us-east-1"}
        found = find_instance(environment, tmp_path, tmp_path / "none")
    assert found == Instance("g5.xlarge", "eu-west-1", "spot")


def test_the_firmware_is_enough_for_the_type(tmp_path: Path) -> None:
    environment = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"}
    nitro = firmware(tmp_path, "Amazon EC2", "p4d.24xlarge")
    assert find_instance(environment, nitro, tmp_path / "none") == Instance("p4d.24xlarge", "us-east-1")


def test_a_notebook_instance_has_a_type_of_sagemaker(tmp_path: Path) -> None:
    arn = "arn:aws:sagemaker:us-west-2:123456789012:notebook-instance/experiments"
    (tmp_path / "resource-metadata.json").write_text(json.dumps({"ResourceArn": arn}))
    environment = {"AWS_EC2_METADATA_DISABLED": "true"}
    nitro = firmware(tmp_path / "dmi", "Amazon EC2", "g5.xlarge")
    found = find_instance(environment, nitro, tmp_path / "resource-metadata.json")
    assert found == Instance("ml.g5.xlarge", "us-west-2")


def test_another_machine_asks_no_service(tmp_path: Path) -> None:
    other = firmware(tmp_path, "QEMU", "Standard PC (Q35 + ICH9, 2009)")
    assert find_instance({}, other, tmp_path / "none") is None


def test_a_service_that_refuses_leaves_the_type_of_the_firmware(tmp_path: Path) -> None:
    nitro = firmware(tmp_path, "Amazon EC2", "g6.xlarge")
    with MetadataService(SERVICE, rejects=403) as service:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url}
        assert find_instance(environment, nitro, tmp_path / "none") == Instance("g6.xlarge")
