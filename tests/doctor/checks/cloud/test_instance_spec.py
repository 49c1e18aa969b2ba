"""What the instance type promises against what is there, and where the machine says that it is."""

import json
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.doctor.checks.cloud.instance_spec import Reading, SeenGpu, evaluate, read
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.instance_identity import InstanceIdentity, read_instance_identity
from gpuproof.gpu.cuda import NvmlReading
from gpuproof.gpu.driver import DriverFiles, PciGpu
from gpuproof.gpu.nvml import GpuInfo
from support.gpu_states import GIB, codes, text

MIB = 1 << 20


def at(root: Path, environment: dict[str, str] | None = None, **files: str) -> Machine:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Machine(root=root, environment=environment or {})


def test_a_laptop_is_nowhere_in_aws(tmp_path: Path):
    machine = at(
        tmp_path, sys__class__dmi__id__sys_vendor="LENOVO\n", sys__class__dmi__id__product_name="20XW.1\n"
    )
    assert read_instance_identity(machine) == InstanceIdentity()
    assert read(machine) is None


def test_nitro_s_firmware_names_the_type_without_a_network(tmp_path: Path):
    machine = at(
        tmp_path,
        sys__class__dmi__id__sys_vendor="Amazon EC2\n",
        sys__class__dmi__id__product_name="p4d.24xlarge\n",
    )
    identity = read_instance_identity(machine)
    assert (identity.service, identity.instance_type, identity.on_aws) == ("ec2", "p4d.24xlarge", True)


@pytest.mark.parametrize(
    "product", ["g5.xlarge", "p6-b200.48xlarge", "g4dn.metal", "u7i-12tb.224xlarge", "trn1.2xlarge"]
)
def test_every_form_of_a_type_is_taken(tmp_path: Path, product: str):
    machine = at(
        tmp_path, sys__class__dmi__id__sys_vendor="Amazon EC2", sys__class__dmi__id__product_name=product
    )
    assert read_instance_identity(machine).instance_type == product


def test_a_training_job_reads_its_type_from_its_contract(tmp_path: Path):
    config = json.dumps({"current_host": "algo-1", "current_instance_type": "ml.g5.2xlarge"})
    machine = at(tmp_path, {"AWS_REGION": "eu-west-1"}, opt__ml__input__config__resourceconfig=config)
    (tmp_path / "opt/ml/input/config/resourceconfig").rename(
        tmp_path / "opt/ml/input/config/resourceconfig.json"
    )
    identity = read_instance_identity(machine)
    assert (identity.service, identity.instance_type, identity.region) == (
        "sagemaker",
        "ml.g5.2xlarge",
        "eu-west-1",
    )


def test_a_processing_job_reads_it_too(tmp_path: Path):
    config = json.dumps({"ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.g4dn.xlarge"}}})
    machine = at(tmp_path, **{"opt__ml__config__processingjobconfig.json": config})
    assert read_instance_identity(machine).instance_type == "ml.g4dn.xlarge"


def test_a_broken_contract_is_ignored(tmp_path: Path):
    machine = at(tmp_path, **{"opt__ml__input__config__resourceconfig.json": "{nonsense"})
    assert read_instance_identity(machine) == InstanceIdentity()


@pytest.mark.parametrize("name", ["local", "g5.xlarge", "ml.something"])
def test_a_contract_that_names_no_type_of_sagemaker_is_not_sagemaker(tmp_path: Path, name: str):
    assert read_instance_identity(at(tmp_path, {"SM_CURRENT_INSTANCE_TYPE": name})) == InstanceIdentity()


def test_the_contract_that_gpuproof_run_plays_on_a_laptop_is_not_sagemaker(tmp_path: Path):
    environment = {"SM_CURRENT_INSTANCE_TYPE": "ml.g5.xlarge"}
    assert (
        read_instance_identity(at(tmp_path, environment, sys__class__dmi__id__sys_vendor="LENOVO\n"))
        == InstanceIdentity()
    )
    assert read_instance_identity(
        at(tmp_path, environment, sys__class__dmi__id__sys_vendor="Amazon EC2\n")
    ).on_aws


def test_a_notebook_instance_knows_its_region_by_its_name(tmp_path: Path):
    arn = json.dumps({"ResourceArn": "arn:aws:sagemaker:eu-west-1:123456789012:notebook-instance/n"})
    machine = at(tmp_path, **{"opt__ml__metadata__resource-metadata.json": arn})
    assert read_instance_identity(machine).region == "eu-west-1"


def test_the_users_setting_takes_precedence_and_a_contradiction_is_kept(tmp_path: Path):
    at(tmp_path, sys__class__dmi__id__sys_vendor="Amazon EC2", sys__class__dmi__id__product_name="g5.xlarge")
    other = read_instance_identity(Machine(root=tmp_path, environment={}, instance_type="g6.xlarge"))
    same = read_instance_identity(Machine(root=tmp_path, environment={}, instance_type="ml.g5.xlarge"))
    assert (other.instance_type, other.user_given, other.detected_type) == ("g6.xlarge", True, "g5.xlarge")
    assert same.detected_type is None


def judge(
    name: str,
    seen: list[SeenGpu] | None,
    on_bus: int | None = None,
    user_given: bool = False,
    container: bool = False,
):
    catalogue = Catalogue.load()
    spec = catalogue.instance(name)
    model = catalogue.gpu(spec.gpu_model or "") if spec else None
    identity = InstanceIdentity("ec2", name, "the firmware (DMI)", user_given=user_given, on_aws=True)
    alternatives = tuple(
        (replacement.instance.name, replacement.reason) for replacement in catalogue.replacements(name)
    )
    vendor = model.vendor if model else "NVIDIA"
    return list(
        evaluate(
            Reading(
                identity, spec, vendor, None if seen is None else tuple(seen), on_bus, container, alternatives
            )
        )
    )


A10G = SeenGpu("NVIDIA A10G", "A10G", 23028 * MIB)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("g5.xlarge", [A10G]),
        ("g5.12xlarge", [A10G] * 4),
        ("g6.xlarge", [SeenGpu("NVIDIA L4", "L4", 23034 * MIB)]),
        ("g6f.large", [SeenGpu("NVIDIA L4-3Q", None, 3 * GIB)]),
        ("p4d.24xlarge", [SeenGpu("NVIDIA A100-SXM4-40GB", "A100-40GB", 40960 * MIB)] * 8),
    ],
)
def test_a_matching_instance_has_no_finding(name: str, seen: list[SeenGpu]):
    assert codes(judge(name, seen, on_bus=len(seen))) == []


def test_gpus_missing_from_the_bus_call_for_another_machine():
    (finding,) = judge("g5.12xlarge", [A10G] * 3, on_bus=3)
    assert (finding.code, finding.severity) == ("D701", "error")
    assert "Only 3 of the 4 GPUs" in finding.message
    assert "moves it to other hardware" in text(finding)


def test_gpus_that_the_driver_lost_call_for_a_reboot():
    (finding,) = judge("g5.12xlarge", [A10G] * 3, on_bus=4)
    assert "driver does not use all" in finding.message
    assert "Reboot" in text(finding)


def test_gpus_that_a_container_was_not_given_call_for_the_flag():
    (finding,) = judge("g5.12xlarge", [A10G], on_bus=4, container=True)
    assert "--gpus all" in text(finding)


def test_without_nvml_the_bus_is_counted():
    assert codes(judge("g5.12xlarge", None, on_bus=4)) == []
    assert codes(judge("g5.12xlarge", None, on_bus=1)) == ["D701 error"]
    assert codes(judge("g5.12xlarge", None, None)) == []


def test_more_gpus_than_promised_are_a_note():
    assert codes(judge("g5.xlarge", [A10G] * 4)) == ["D701 note"]


def test_another_model_is_a_warning_and_an_unknown_name_is_not():
    assert codes(judge("g6.xlarge", [A10G])) == ["D702 warning"]
    assert codes(judge("g6.xlarge", [SeenGpu("NVIDIA Something New", None, 23 * GIB)])) == []


def test_much_less_memory_than_promised_is_a_warning():
    assert (
        codes(judge("p4de.24xlarge", [SeenGpu("NVIDIA A100-SXM4-80GB MIG 3g.40gb", None, 40 * GIB)] * 8))
        == ["D703 warning"] * 8
    )


def test_a_type_without_a_gpu_names_types_with_one():
    (finding,) = judge("m5.xlarge", None)
    assert (finding.code, finding.severity) == ("D704", "error")
    assert "g4dn.xlarge" in text(finding)


def test_another_accelerator_is_called_by_its_name():
    (finding,) = judge("inf2.xlarge", None)
    assert "inferentia" in finding.message


def test_a_retired_type_is_an_error_when_requested_and_a_warning_when_detected():
    seen = [SeenGpu("Tesla V100-SXM2-16GB", "V100-16GB", 16384 * MIB)]
    assert codes(judge("p3.2xlarge", seen, user_given=True)) == ["D705 error"]
    assert codes(judge("p3.2xlarge", seen)) == ["D705 warning"]


def test_amd_gpus_are_an_error():
    assert "D707 error" in codes(judge("g4ad.xlarge", None, on_bus=0))


def test_an_unknown_type_is_a_note():
    assert codes(judge("g99.xlarge", [A10G])) == ["D708 note"]


def test_a_contradiction_is_a_warning():
    identity = InstanceIdentity(
        "ec2", "g5.xlarge", "--instance-type", user_given=True, on_aws=True, detected_type="m5.xlarge"
    )
    found = evaluate(Reading(identity, Catalogue.load().instance("g5.xlarge"), seen=(A10G,)))
    assert codes(found) == ["D709 warning"]


def test_on_a_laptop_a_named_type_does_not_speak_of_bills():
    identity = InstanceIdentity("ec2", "g5.12xlarge", "--instance-type", user_given=True)
    (finding,) = evaluate(Reading(identity, Catalogue.load().instance("g5.12xlarge"), seen=(), on_bus=0))
    assert "you pay" not in finding.message
    assert "does not look like an AWS instance" in finding.message


def test_the_reading_is_what_nvml_and_the_bus_show(tmp_path: Path):
    machine = Machine(root=tmp_path, environment={}, instance_type="g5.xlarge")
    vars(machine)["nvml"] = NvmlReading(
        "580.95.05", (GpuInfo(0, name="NVIDIA A10G", memory_total=23028 * MIB),)
    )
    vars(machine)["files"] = DriverFiles(pci=(PciGpu("0000:00:1e.0", "0x2237", "nvidia"),))
    reading = read(machine)
    assert reading is not None
    assert reading.seen == (A10G,)
    assert (reading.on_bus, reading.alternatives) == (1, ())
