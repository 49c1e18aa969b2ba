"""The emulator's state survives a restart; its processes do not survive its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, end_emulator, running_emulator, start_emulator
from support.cli_sandbox import GPUPROOF, gone, until
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow


def test_everything_is_there_again_after_an_end_in_order(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, emulator.bucket("kept"), "kept")
        aws.put("a.txt", "hello")
        aws.put("big.bin", b"x" * 300_000)
        aws.put("gone.txt")
        aws.client("s3").delete_object(Bucket="kept", Key="gone.txt")
        job = aws.trained("echo said", Tags=[{"Key": "a", "Value": "b"}])
        name, role = job["TrainingJobName"], emulator.role
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, "kept", "kept")
        again = aws.job(name)
        assert {**again, "ResponseMetadata": 0} == {**job, "ResponseMetadata": 0}
        assert aws.client("sagemaker").list_tags(ResourceArn=job["TrainingJobArn"])["Tags"] == [
            {"Key": "a", "Value": "b"}
        ]
        assert aws.get("a.txt") == "hello"
        assert len(aws.get("big.bin")) == 300_000
        assert aws.keys("gone.txt") == []
        assert aws.archive(f"out/{name}/output/model.tar.gz") == {}
        assert aws.log(name) == ["said"]
        assert aws.client("iam").get_role(RoleName="SageMakerRole")["Role"]["Arn"] == role


def test_ids_that_were_given_out_are_good_after_a_restart(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        s3 = emulator.client("s3")
        emulator.bucket("parts")
        upload = s3.create_multipart_upload(Bucket="parts", Key="big")["UploadId"]
        part = s3.upload_part(Bucket="parts", Key="big", UploadId=upload, PartNumber=1, Body=b"content")
        instance = emulator.client("ec2").run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)
    with running_emulator(tmp_path) as emulator:
        s3 = emulator.client("s3")
        s3.complete_multipart_upload(
            Bucket="parts",
            Key="big",
            UploadId=upload,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
        )
        assert s3.get_object(Bucket="parts", Key="big")["Body"].read() == b"content"
        ids = [item["InstanceId"] for item in instance["Instances"]]
        assert emulator.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]


def test_a_killed_emulator_takes_its_jobs_along_and_knows_so_afterwards(tmp_path: Path) -> None:
    emulator = start_emulator(tmp_path / "emulator")
    try:
        aws = Account(emulator, emulator.bucket("data"), "lost")
        # A grandchild that ignores signals and leads a session of its own.
        name = aws.train("trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 300' & sleep 300")
        aws.in_state(name, "Training")
        children = until(lambda: _below(emulator.process.pid, "sleep"), "the script")
    finally:
        emulator.process.send_signal(signal.SIGKILL)
        end_emulator(emulator)
    assert all(gone(pid) for pid in children)
    with running_emulator(tmp_path) as again:
        job = Account(again, "data", "lost").job(name)
        assert job["TrainingJobStatus"] == job["SecondaryStatus"] == "Failed"
        assert job["FailureReason"].startswith("InternalServerError:")
        assert not (tmp_path / "emulator" / "instances").exists()


def test_an_end_in_order_leaves_no_process(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, emulator.bucket("data"), "ended")
        aws.in_state(aws.train("trap '' TERM; sleep 300"), "Training")
        children = until(lambda: _below(emulator.process.pid, "sleep"), "the script")
    assert emulator.process.returncode == 0
    assert all(gone(pid) for pid in children)


def test_a_journal_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        emulator.bucket("first")
        emulator.bucket("second")
    journal = tmp_path / "emulator" / "moto" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    with running_emulator(tmp_path) as emulator:
        assert _buckets(emulator) == ["first"]
        emulator.bucket("third")
    with running_emulator(tmp_path) as emulator:
        assert _buckets(emulator) == ["first", "third"]


def test_a_new_emulator_has_a_role_for_jobs_and_one_that_was_deleted_returns(tmp_path: Path) -> None:
    role = "arn:aws:iam::123456789012:role/emulator"
    with running_emulator(tmp_path, role=True) as emulator:
        assert role in _roles(emulator)
        job = Account(emulator, emulator.bucket("data"), "first").trained("true", RoleArn=role)
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        iam = emulator.client("iam")
        iam.delete_role_policy(RoleName="emulator", PolicyName="gpuproof")
        iam.delete_role(RoleName="emulator")
        assert role not in _roles(emulator)
    with running_emulator(tmp_path, role=True) as emulator:
        assert role in _roles(emulator)


def test_a_fresh_start_forgets_everything(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        emulator.bucket("old")
    with running_emulator(tmp_path, words=("--fresh",)) as emulator:
        assert _buckets(emulator) == []


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with running_emulator(tmp_path) as emulator:
        port = emulator.url.rpartition(":")[2]
        done = _gpuproof(tmp_path, "emulator", "--port", port, "--state", str(tmp_path / "other"))
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is already in use" in done.stderr


def test_two_emulators_do_not_share_a_folder(tmp_path: Path) -> None:
    with running_emulator(tmp_path):
        done = _gpuproof(tmp_path, "emulator", "--port", "0", "--state", str(tmp_path / "emulator"))
    assert done.returncode == 1
    assert "Another emulator is using the state folder" in done.stderr


def test_without_the_emulator_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "gpuproof_emulator.py").write_text("raise ModuleNotFoundError(name='gpuproof_emulator')")
    done = _gpuproof(tmp_path, "emulator", "--port", "0", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "pip install 'gpuproof[emulator]'" in done.stderr


def test_what_to_type_is_printed_and_only_loopback_is_served(tmp_path: Path) -> None:
    emulator = start_emulator(tmp_path / "emulator")
    try:
        listening = _listening(emulator.process.pid)
    finally:
        end_emulator(emulator)
    settings = emulator.environment.pop("SAGEMAKER_ADMIN_CONFIG_OVERRIDE")
    assert "TelemetryOptOut: true" in Path(settings).read_text()
    token = emulator.environment.pop("AWS_SECRET_ACCESS_KEY")
    assert re.fullmatch(r"[0-9a-f]{40}", token)
    assert emulator.environment.pop("AWS_ENDPOINT_URL").startswith("http://127.0.0.1:")
    assert emulator.environment == {"AWS_ACCESS_KEY_ID": "emulator", "AWS_DEFAULT_REGION": "us-east-1"}
    assert listening == {"0100007F"}


def _gpuproof(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUPROOF_STATE_DIR": str(folder / "state"), **more}
    return subprocess.run([*GPUPROOF, *words], env=environment, capture_output=True, text=True, timeout=300)


def _buckets(emulator: RunningEmulator) -> list[str]:
    return [item["Name"] for item in emulator.client("s3").list_buckets()["Buckets"]]


def _roles(emulator: RunningEmulator) -> list[str]:
    return [item["Arn"] for item in emulator.client("iam").list_roles()["Roles"]]


def _below(pid: int, program: str) -> list[int]:
    """Descendants that run a program, all of the family once one does."""
    from gpuproof.util.process_tree import descendants

    found = descendants(pid)
    names = [_program(child) for child in found]
    return found if names.count(program) >= 1 else []


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _listening(pid: int) -> set[str]:
    """Addresses on which a process listens, as /proc/net/tcp writes them."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:  # closed since it was listed
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}
