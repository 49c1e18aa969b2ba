"""`gpuproof doctor --report` prints nothing that is not on its allow-list."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.cloud import account
from gpuproof.doctor.checks.gpu_state import xid_events
from gpuproof.doctor.checks.host import disk, oom_kills
from gpuproof.doctor.formats.markdown import PRINTED_VARIABLES, Private, render_markdown
from gpuproof.doctor.formats.public_text import publish, publish_value, vocabulary
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.registry import CHECKS
from gpuproof.doctor.report import CheckResult, LayerReport, Report, State
from gpuproof.doctor.runner import examine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks import gpu_processes
from gpuproof.gpu.framework_probe import Packages
from support.doctor_machines import SCENARIOS, build_machine, read_scenario

ANY_CHECK: Check[Any] = Check("any", Layer.ENVIRONMENT, lambda _: None, lambda _: ())


def is_no_common_word(word: str) -> bool:
    return not any(part in vocabulary() for part in (word.lower(), *re.split(r"[\W_]+", word.lower())))


secrets = st.one_of(
    st.from_regex(r"[A-Za-z]{5,14}", fullmatch=True),
    st.from_regex(r"[a-z]{4,8}[-_.][a-z]{4,8}[0-9]{0,3}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]{3,10}[g-zG-Z][A-Za-z0-9]{6,20}", fullmatch=True),
    st.text(alphabet="äéßøπδжщ字", min_size=4, max_size=9),
).filter(is_no_common_word)

TEXTS = (
    "{}",
    "/home/{}/data/{}.bin: 9.1.0",
    "/mnt/{}/lib64:/usr/local/cuda/lib64",
    "LD_LIBRARY_PATH=/srv/{}:/usr/lib",
    "C:\\Users\\{}\\venv, /Users/{}/x and file:///{}/x",
    "ModuleNotFoundError: No module named '{}' (/opt/{}/train.py)",
    "ImportError: /x/{}.so: undefined symbol: {}",
    "The config profile ({}) could not be found",
    "arn:aws:iam::123456789012:role/{}",
    "s3://{}/data, https://{}.example.com/x?token={}",
    "{}@{}.com at ip-10-0-0-1.{}.internal",
    "torch 2.11.0+{}, tensorflow-{} 1.0",
    "GPU 0 ({}): memory: 1 GiB of 2 GiB",
    "{}-laptop, x{}y, a.{}.b",
)


def report_of(*findings: Finding, summary: str | None = None) -> Report:
    result = CheckResult(ANY_CHECK, True, findings, summary)
    return Report((LayerReport(Layer.ENVIRONMENT, State.FINDINGS, (result,)),))


def machine_with(secret: str) -> Machine:
    environment = dict.fromkeys(PRINTED_VARIABLES, secret) | {"AWS_PROFILE": secret, f"TF_{secret}": secret}
    machine = Machine(root=Path("/nonexistent"), environment=environment, python=f"/home/{secret}/bin/python")
    versions = {"torch": f"2.11.0+{secret}", f"tensorflow-{secret}": "1.0", f"nvidia-{secret}": secret}
    vars(machine)["packages"] = Packages("3.11.7", "x86_64", f"/opt/{secret}", versions=versions)
    return machine


@given(secret=secrets, text=st.sampled_from(TEXTS))
def test_a_planted_secret_is_never_printed(secret: str, text: str) -> None:
    planted = text.replace("{}", secret)
    finding = Finding("D414", Severity.ERROR, f"It fails: {planted}", (planted, f"x: {planted}"), planted)
    printed = render_markdown(report_of(finding, summary=planted), machine_with(secret), Private())
    assert secret.lower() not in printed.lower()
    assert "**D414 error**" in printed
    assert "\n\n| layer | state | |\n|---|---|---|\n| environment |" in printed


@given(secret=secrets, count=st.integers(1, 9))
def test_what_checks_read_from_the_machine_is_never_printed(secret: str, count: int) -> None:
    line = f"NVRM: Xid (PCI:0000:00:1e): 31, pid={count}, name={secret}, Ch 00000008, intr 00000000"
    events = xid_events.find_xid_events(((1.0, line),))
    kill = oom_kills.OomKill(1.0, count, secret, limit=False)
    process = gpu_processes.GpuProcess(count, secret, secret, 1 << 30)
    use = gpu_processes.GpuUse("GPU 0 (NVIDIA A10G)", (process,), 1 << 30, 1 << 34)
    failure = account.AwsFailure("credentials", f"The config profile ({secret}) could not be found", secret)
    findings = (
        *xid_events.evaluate(xid_events.Reading(events)),
        *oom_kills.evaluate((kill,)),
        *gpu_processes.evaluate((use,)),
        *account.evaluate(account.Reading(failure=failure)),
        *account.evaluate(account.Reading(identity=f"assumed-role/{secret}/{secret}")),
        *disk.evaluate(disk.Reading(missing=(("TMPDIR", f"/scratch/{secret}"),))),
    )
    assert len({finding.code for finding in findings}) == 6
    printed = render_markdown(report_of(*findings), machine_with(secret), Private())
    assert secret.lower() not in printed.lower()


def test_names_that_are_ordinary_words_are_removed_where_a_check_knows_that_they_are_names() -> None:
    line = "NVRM: Xid (PCI:0000:00:1e): 31, pid=7, name=training, Ch 00000008"
    finding = next(iter(xid_events.evaluate(xid_events.Reading(xid_events.find_xid_events(((1.0, line),))))))
    printed = render_markdown(report_of(finding), machine_with("production"), Private(others=("production",)))
    assert "name=<removed>, Ch 00000008" in printed
    assert "production" not in printed


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",
        "libcudnn.so.9: cannot open shared object file: No such file or directory",
        "driver 580.95.05, CUDA 12.4, cuDNN 9.10.2, nvidia-cudnn-cu12 9.10.2.21",
        "torch==2.11.0+cu126, Python 3.11.7 (x86_64)",
        "GPU 0 (NVIDIA A10G): 22.5 GiB, sm_86, Xid 79, 8 vCPUs in eu-west-1, g5.xlarge",
        "0000:00:1e.0: A10G, driver nvidia",
        "/dev/nvidia0, /usr/local/cuda/lib64 and /opt/ml/model",
        "Linux 6.1.0-18-cloud-amd64, 6.1.141-155.222.amzn2023.x86_64",
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
    ],
)
def test_what_support_needs_is_printed(text: str) -> None:
    assert publish(text) == text


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("/home/<user>/venv/lib/libcudnn.so.9: cuDNN 9.1.0", "<path>/libcudnn.so.9: cuDNN 9.1.0"),
        ("torch 2.11.0+acme", "torch 2.11.0+<removed>"),
        ("Linux 6.18.44-acme-v657", "Linux 6.18.44-<removed>"),
        (
            "ProfileNotFound: The config profile (acme) could",
            "ProfileNotFound: The config profile (<removed>) could",
        ),
        ("account 123456789012", "account <removed>"),
    ],
)
def test_the_useful_part_stays(text: str, published: str) -> None:
    assert publish(text) == published


@pytest.mark.parametrize(
    ("value", "published"),
    [
        ("0,1", "0,1"),
        ("expandable_segments:True,max_split_size_mb:512", "expandable_segments:True,max_split_size_mb:512"),
        ("/opt/acme/lib:/usr/local/cuda/lib64", "<path>:/usr/local/cuda/lib64"),
        ("production", "<removed>"),
        ("train,model", "<removed>,<removed>"),
    ],
)
def test_a_variable_shows_numbers_and_usual_words(value: str, published: str) -> None:
    assert publish_value(value) == published


@pytest.mark.slow
def test_a_whole_machine_full_of_secrets_prints_none(tmp_path: Path) -> None:
    readings = read_scenario(SCENARIOS / "another_process_trains_here")
    built = build_machine(readings, tmp_path / "machine", tmp_path / "libraries")
    folder = tmp_path / "quorvix"
    folder.mkdir()
    environment = dict.fromkeys(PRINTED_VARIABLES, "quorvix") | dict(built.environment)
    machine = replace(
        built,
        environment={
            **environment,
            "LD_LIBRARY_PATH": f"{folder}:{built.environment.get('LD_LIBRARY_PATH', '')}",
            "AWS_PROFILE": "quorvix",
            "TMPDIR": f"{folder}/missing",
            "HF_HOME": str(folder),
        },
    )
    printed = render_markdown(examine(machine, CHECKS), machine)
    assert "quorvix" not in printed
    assert "D635" in printed
    assert "D674" in printed
