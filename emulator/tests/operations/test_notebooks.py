"""Notebook instances over HTTP: states, lifecycle scripts that really run, limits, faults, and presigned addresses."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws_emulator import RunningEmulator, running_emulator
from support.cli_sandbox import until
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

GROUP = "/aws/sagemaker/NotebookInstances"


class Notebooks:
    """Notebook instances of one test, deleted at its end."""

    def __init__(self, emulator: RunningEmulator, name: str) -> None:
        self.emulator = emulator
        self.name = name
        self.api = emulator.client("sagemaker")

    def create(self, name: str = "", **more: Any) -> str:
        name = name or self.name
        request = {"InstanceType": "ml.g5.xlarge", "RoleArn": self.emulator.role, **more}
        self.api.create_notebook_instance(NotebookInstanceName=name, **request)
        return name

    def config(self, on_start: str = "", on_create: str = "") -> str:
        hooks = {"OnStart": on_start, "OnCreate": on_create}
        self.api.create_notebook_instance_lifecycle_config(
            NotebookInstanceLifecycleConfigName=self.name,
            **{
                hook: [{"Content": base64.b64encode(script.encode()).decode()}]
                for hook, script in hooks.items()
                if script
            },
        )
        return self.name

    def describe(self, name: str = "") -> dict[str, Any]:
        return self.api.describe_notebook_instance(NotebookInstanceName=name or self.name)

    def reaches(self, status: str, name: str = "") -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            description = self.describe(name)
            return description if description["NotebookInstanceStatus"] == status else None

        return until(found, f"{name or self.name} {status}")

    def is_gone(self, name: str = "") -> bool:
        try:
            self.describe(name)
        except ClientError as error:
            return error.response["Error"]["Message"] == "RecordNotFound"
        return False

    def log(self, hook: str, name: str = "") -> list[str]:
        logs = self.emulator.client("logs")
        stream = f"{name or self.name}/{hook}"
        try:
            events = logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True)
        except ClientError:
            return []
        return [event["message"] for event in events["events"]]

    def delete(self, name: str = "") -> None:
        name = name or self.name
        if self.describe(name)["NotebookInstanceStatus"] == "InService":
            self.api.stop_notebook_instance(NotebookInstanceName=name)
            self.reaches("Stopped", name)
        self.api.delete_notebook_instance(NotebookInstanceName=name)
        until(lambda: self.is_gone(name), f"the end of {name}")


@pytest.fixture
def notebooks(aws: Account) -> Notebooks:
    return Notebooks(aws.emulator, aws.prefix)


def message(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Message"]


def test_an_instance_goes_through_awss_states(notebooks: Notebooks) -> None:
    name = notebooks.create(VolumeSizeInGB=20, RootAccess="Disabled", Tags=[{"Key": "team", "Value": "a"}])
    found = notebooks.reaches("InService")
    assert found["PlatformIdentifier"] == "notebook-al2023-v1"
    assert (found["VolumeSizeInGB"], found["RootAccess"]) == (20, "Disabled")
    tags = notebooks.api.list_tags(ResourceArn=found["NotebookInstanceArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "a"}]
    with pytest.raises(ClientError) as error:
        notebooks.api.delete_notebook_instance(NotebookInstanceName=name)
    assert message(error).startswith(
        "Status (InService) not in ([Stopped, Failed]). Unable to transition to (Deleting)"
    )
    notebooks.api.stop_notebook_instance(NotebookInstanceName=name)
    notebooks.reaches("Stopped")
    with pytest.raises(ClientError, match="Unable to transition to \\(Stopping\\)"):
        notebooks.api.stop_notebook_instance(NotebookInstanceName=name)
    notebooks.api.update_notebook_instance(
        NotebookInstanceName=name, InstanceType="ml.g6.xlarge", VolumeSizeInGB=30
    )
    until(lambda: notebooks.describe()["InstanceType"] == "ml.g6.xlarge", "the update")
    with pytest.raises(ClientError, match="cannot be decreased"):
        notebooks.api.update_notebook_instance(NotebookInstanceName=name, VolumeSizeInGB=20)
    notebooks.api.start_notebook_instance(NotebookInstanceName=name)
    notebooks.reaches("InService")
    notebooks.delete()
    assert notebooks.is_gone()


def test_scripts_run_and_only_the_volume_survives_a_stop(notebooks: Notebooks) -> None:
    config = notebooks.config(
        on_create="#!/bin/bash\necho created\ntouch /home/ec2-user/SageMaker/kept /home/ec2-user/lost\n",
        on_start=(
            "#!/bin/bash\nset -e\necho started; ls /home/ec2-user/SageMaker; ls /home/ec2-user\n"
            "cat /opt/ml/metadata/resource-metadata.json; echo\n"
            f"touch /var/lib/{notebooks.name}; sudo -u ec2-user -i <<'EOF'\necho as a user\nEOF\n"
        ),
    )
    notebooks.create(LifecycleConfigName=config)
    notebooks.reaches("InService")
    log = until(
        lambda: "as a user" in (lines := notebooks.log("LifecycleConfigOnStart")) and lines, "the log"
    )
    assert log[:3] == ["started", "kept", "SageMaker"]
    assert "lost" in log
    metadata = json.loads(next(line for line in log if line.startswith("{")))
    assert metadata["ResourceName"] == notebooks.name
    assert notebooks.log("LifecycleConfigOnCreate") == ["created"]
    assert not Path("/var/lib", notebooks.name).exists()
    notebooks.api.stop_notebook_instance(NotebookInstanceName=notebooks.name)
    notebooks.reaches("Stopped")
    notebooks.api.start_notebook_instance(NotebookInstanceName=notebooks.name)
    notebooks.reaches("InService")
    again = until(
        lambda: (lines := notebooks.log("LifecycleConfigOnStart")).count("as a user") == 2 and lines,
        "the log",
    )
    assert again[len(log) :][:3] == ["started", "kept", "SageMaker"]
    assert "lost" not in again[len(log) :]
    assert notebooks.log("LifecycleConfigOnCreate") == ["created"]
    notebooks.delete()


def test_a_script_that_fails_fails_the_instance_with_awss_reason(notebooks: Notebooks) -> None:
    config = notebooks.config(on_start="#!/bin/bash\necho too bad\nexit 3\n")
    notebooks.create(LifecycleConfigName=config)
    found = notebooks.reaches("Failed")
    assert found["FailureReason"].startswith("Notebook Instance Lifecycle Config 'arn:aws:sagemaker:")
    assert "took longer than 5 minutes" in found["FailureReason"]
    assert notebooks.log("LifecycleConfigOnStart") == ["too bad"]
    notebooks.delete()


def test_a_script_with_windows_line_ends_fails_as_on_aws(notebooks: Notebooks) -> None:
    notebooks.create(LifecycleConfigName=notebooks.config(on_start="#!/bin/bash\r\necho hello\r\n"))
    notebooks.reaches("Failed")
    (line,) = notebooks.log("LifecycleConfigOnStart")
    assert "OnStart_" in line
    notebooks.delete()


def test_what_a_script_leaves_in_the_background_runs_on_and_can_stop_the_instance(
    notebooks: Notebooks,
) -> None:
    script = (
        "#!/bin/bash\n"
        'nohup python3 -c "import boto3, json; '
        "name = json.load(open('/opt/ml/metadata/resource-metadata.json'))['ResourceName']; "
        "client = boto3.client('sagemaker'); "
        "exec('''import time\nwhile client.describe_notebook_instance(NotebookInstanceName=name)['NotebookInstanceStatus'] != "
        "'InService': time.sleep(0.1)'''); client.stop_notebook_instance(NotebookInstanceName=name)\" "
        "> /tmp/background.log 2>&1 &\n"
    )
    notebooks.create(LifecycleConfigName=notebooks.config(on_start=script))
    notebooks.reaches("Stopped")
    notebooks.delete()


def test_a_fault_keeps_an_instance_pending_and_nothing_ends_it(aws: Account, notebooks: Notebooks) -> None:
    aws.emulator.faults(f"slow-start,name={notebooks.name},seconds=3")
    notebooks.create()
    for change in (notebooks.api.stop_notebook_instance, notebooks.api.delete_notebook_instance):
        with pytest.raises(ClientError, match="Status \\(Pending\\) not in"):
            change(NotebookInstanceName=notebooks.name)
    notebooks.reaches("InService")
    notebooks.delete()


def test_a_type_without_capacity_fails_after_a_while(aws: Account, notebooks: Notebooks) -> None:
    aws.emulator.faults(f"capacity,name={notebooks.name}")
    notebooks.create()
    reason = notebooks.reaches("Failed")["FailureReason"]
    assert reason == "Insufficient notebook instance capacity. Retry later or with a different instance type."
    notebooks.delete()


def test_quotas_count_instances_that_are_not_stopped(aws: Account, notebooks: Notebooks) -> None:
    quota = "ml.g4dn.12xlarge for notebook instance usage"
    aws.emulator.quotas({quota: 1})
    notebooks.create(InstanceType="ml.g4dn.12xlarge")
    notebooks.reaches("InService")
    with pytest.raises(ClientError) as error:
        notebooks.create(f"{notebooks.name}-2", InstanceType="ml.g4dn.12xlarge")
    assert error.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    assert quota in message(error)
    notebooks.delete()
    aws.emulator.quotas({quota: 500})


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"InstanceType": "ml.g6f.xlarge"}, "failed to satisfy constraint"),
        ({"DirectInternetAccess": "Disabled"}, "only if SubnetId is set"),
        ({"SecurityGroupIds": ["sg-1"]}, "requires SubnetId"),
        ({"LifecycleConfigName": "absent"}, "does not exist"),
        ({"VolumeSizeInGB": 20_000}, "less than or equal to 16384"),
        ({"DefaultCodeRepository": "https://example.com/x.git"}, "does not support DefaultCodeRepository"),
        ({"AcceleratorTypes": ["ml.eia2.medium"]}, "does not support AcceleratorTypes"),
        ({"IpAddressType": "dualstack"}, "does not support IpAddressType dualstack"),
        ({"RoleArn": "arn:aws:iam::123456789012:role/absent"}, "Could not assume role"),
    ],
)
def test_what_is_invalid_or_not_supported_is_rejected_by_name(
    notebooks: Notebooks, more: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ClientError, match=expected):
        notebooks.create(**more)
    assert notebooks.is_gone()


def test_a_second_instance_of_a_name_is_a_duplicate(notebooks: Notebooks) -> None:
    notebooks.create()
    with pytest.raises(ClientError, match="Cannot create a duplicate Notebook Instance"):
        notebooks.create()
    notebooks.reaches("InService")
    notebooks.delete()


def test_a_lifecycle_configuration_has_awss_limits(notebooks: Notebooks) -> None:
    create = notebooks.api.create_notebook_instance_lifecycle_config
    name = {"NotebookInstanceLifecycleConfigName": notebooks.name}
    with pytest.raises(ClientError, match="16384"):
        create(**name, OnStart=[{"Content": "A" * 16388}])
    with pytest.raises(ClientError, match="not encoded in base64"):
        create(**name, OnStart=[{"Content": "#!/bin/bash"}])
    notebooks.config(on_start="#!/bin/bash\n")
    with pytest.raises(ClientError, match="already exists"):
        notebooks.config(on_start="#!/bin/bash\n")
    notebooks.api.delete_notebook_instance_lifecycle_config(**name)
    with pytest.raises(ClientError, match="does not exist"):
        notebooks.api.describe_notebook_instance_lifecycle_config(**name)


def test_instances_are_listed_by_status_and_lifecycle_configuration(notebooks: Notebooks) -> None:
    notebooks.create(LifecycleConfigName=notebooks.config(on_start="#!/bin/bash\n"))
    notebooks.reaches("InService")

    def names(**filters: Any) -> list[str]:
        found = notebooks.api.list_notebook_instances(NameContains=notebooks.name, **filters)
        return [instance["NotebookInstanceName"] for instance in found["NotebookInstances"]]

    assert names(StatusEquals="InService") == [notebooks.name]
    assert names(StatusEquals="Stopped") == []
    assert names(NotebookInstanceLifecycleConfigNameContains=notebooks.name) == [notebooks.name]
    assert names(NotebookInstanceLifecycleConfigNameContains="other") == []
    notebooks.delete()


def test_a_presigned_address_leads_to_a_real_jupyter(notebooks: Notebooks) -> None:
    pytest.importorskip("jupyterlab")
    notebooks.create()
    notebooks.reaches("InService")
    url = notebooks.api.create_presigned_notebook_instance_url(NotebookInstanceName=notebooks.name)[
        "AuthorizedUrl"
    ]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.replace("authToken=", "authToken=0"))
    assert refused.value.code == 403
    request = urllib.request.Request(url)
    opener = urllib.request.build_opener(_NoRedirect())
    with pytest.raises(urllib.error.HTTPError) as redirected:
        opener.open(request)
    location = redirected.value.headers["Location"]
    base, _, token = location.partition("?token=")
    if not token:
        pytest.skip("this machine allows no network namespaces")
    with pytest.raises(urllib.error.HTTPError) as denied:
        urllib.request.urlopen(f"{base}api/kernels")
    assert denied.value.code == 403
    with urllib.request.urlopen(f"{base}api/kernels?token={token}") as answer:
        assert json.loads(answer.read()) == []
    notebooks.api.stop_notebook_instance(NotebookInstanceName=notebooks.name)
    notebooks.reaches("Stopped")
    with pytest.raises(urllib.error.HTTPError) as stopped:
        urllib.request.urlopen(url)
    assert stopped.value.code == 409
    with pytest.raises(OSError):  # noqa: PT011 - refused, or closed
        urllib.request.urlopen(f"{base}api/kernels?token={token}", timeout=30)
    notebooks.delete()


def test_a_script_has_a_time_limit_and_states_survive_a_restart(tmp_path: Path) -> None:
    with running_emulator(tmp_path, words=("--lifecycle-limit", "1")) as emulator:
        slow, fast = Notebooks(emulator, "slow"), Notebooks(emulator, "fast")
        started = time.monotonic()
        slow.create(LifecycleConfigName=slow.config(on_start="#!/bin/bash\necho waiting\nsleep 1000\n"))
        assert "took longer than 5 minutes" in slow.reaches("Failed")["FailureReason"]
        assert time.monotonic() - started < 900, "the script slept to its end"
        fast.create()
        fast.reaches("InService")
    with running_emulator(tmp_path) as emulator:
        # Machines end with the emulator.
        assert Notebooks(emulator, "fast").describe()["NotebookInstanceStatus"] == "Stopped"
        assert Notebooks(emulator, "slow").describe()["NotebookInstanceStatus"] == "Failed"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Not followed."""
