"""What the doctor found, for people, programs and issues."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.formats.json_junit import render_json, render_junit
from gpuproof.doctor.formats.markdown import Private, redact, render_markdown
from gpuproof.doctor.formats.text import render_text
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.registry import CHECKS
from gpuproof.doctor.report import CheckResult, LayerReport, Report, State
from gpuproof.doctor.runner import examine
from gpuproof.errors import ExitCode
from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.framework_probe import Packages

CHECK = Check("cuInit", Layer.DRIVER, lambda _: None, lambda _: ())
BAD = Finding(
    "D207",
    Severity.ERROR,
    "CUDA does not start.",
    ("cuInit: 999", "a control character: \x07 & <tag>"),
    "sudo nvidia-modprobe -u -c=0",
    Location(device="GPU 0 (NVIDIA A10G)"),
)
SLOW = Finding("D510", Severity.WARNING, "It is slow.")
REMARK = Finding("D401", Severity.NOTE, "Nothing is installed.")
REPORT = Report(
    (
        LayerReport(Layer.HARDWARE, State.OK, (CheckResult(CHECK, True, (), "1 A10G on the bus"),)),
        LayerReport(
            Layer.DRIVER, State.FAILED, (CheckResult(CHECK, True, (BAD, SLOW)), CheckResult(CHECK, False))
        ),
        LayerReport(Layer.COMPUTE, State.SKIPPED, reason="depends on driver, which failed"),
        LayerReport(Layer.ENVIRONMENT, State.FINDINGS, (CheckResult(CHECK, True, (REMARK,)),)),
        LayerReport(Layer.CLOUD, State.NOT_APPLICABLE),
    )
)


def text(least: Severity = Severity.NOTE, *, colour: bool = False, width: int = 0) -> str:
    return render_text(REPORT, least, colour=colour, width=width)


def test_a_layer_that_is_well_takes_one_line() -> None:
    assert text().splitlines()[0] == "ok hardware      1 A10G on the bus"


def test_a_finding_has_its_place_evidence_and_remedy() -> None:
    lines = text().splitlines()
    start = lines.index("    D207 error: GPU 0 (NVIDIA A10G): CUDA does not start.")
    assert lines[start + 1] == "        | cuInit: 999"
    assert lines[start + 3] == "        -> sudo nvidia-modprobe -u -c=0"


def test_a_message_that_names_its_gpu_does_not_repeat_it() -> None:
    where = Location(device="GPU 0 (NVIDIA A10G)")
    finding = Finding("D615", Severity.WARNING, "GPU 0 (NVIDIA A10G) is slowed down.", location=where)
    result = CheckResult(CHECK, True, (finding,))
    report = Report((LayerReport(Layer.ENVIRONMENT, State.FINDINGS, (result,)),))
    printed = render_text(report, Severity.NOTE, colour=False, width=0)
    assert "D615 warning: GPU 0 (NVIDIA A10G) is slowed down." in printed
    for text in (printed, render_junit(report, Severity.NOTE, strict=False), render_markdown_of(report)):
        assert text.count("NVIDIA A10G") == 1


def render_markdown_of(report: Report) -> str:
    machine = Machine(environment={})
    vars(machine)["packages"] = Packages("3.11.7", "x86_64")
    return render_markdown(report, machine, Private())


def test_skipped_layers_show_the_reason_and_empty_ones_a_note() -> None:
    assert ".. compute       skipped: depends on driver, which failed" in text()
    assert "-- cloud         nothing to check" in text()


def test_the_summary_counts_what_is_not_shown() -> None:
    assert text().splitlines()[-1] == "1 error, 1 warning, 1 note."
    shown = text(Severity.ERROR)
    assert shown.splitlines()[-1] == "1 error, 1 warning, 1 note (2 not shown: --severity)."
    assert "D510" not in shown
    assert "No problems found." in render_text(
        Report(REPORT.layers[:1]), Severity.NOTE, colour=False, width=0
    )


def test_lines_fit_the_terminal_but_what_is_to_be_copied_is_never_broken() -> None:
    long = Finding("D999", Severity.ERROR, "word " * 60, ("evidence " * 30,), "pip install " + "x" * 90)
    report = Report((LayerReport(Layer.DRIVER, State.FAILED, (CheckResult(CHECK, True, (long,)),)),))
    lines = render_text(report, Severity.NOTE, colour=False, width=70).splitlines()
    assert all(len(line) <= 70 for line in lines if "->" not in line)
    assert f"        -> pip install {'x' * 90}" in lines


def test_colour_is_only_paint() -> None:
    painted = text(colour=True)
    assert "\x1b[31;1mD207 error:\x1b[0m" in painted
    import re

    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == text()


def test_json_is_versioned_and_whole() -> None:
    document = json.loads(render_json(REPORT, Severity.NOTE, ExitCode.FAILED))
    assert (document["version"], document["exit_code"]) == (1, 1)
    assert document["layers"][2] == {
        "name": "compute",
        "state": "not-asked",
        "facts": [],
        "reason": "depends on driver, which failed",
        "checks": [],
    }
    first = document["findings"][0]
    assert (first["layer"], first["code"], first["severity"]) == ("driver", "D207", "error")
    assert first["location"] == {"device": "GPU 0 (NVIDIA A10G)"}
    assert first["remedy"] == "sudo nvidia-modprobe -u -c=0"


def test_json_leaves_out_what_is_below_the_threshold() -> None:
    document = json.loads(render_json(REPORT, Severity.WARNING, ExitCode.FAILED))
    assert [finding["code"] for finding in document["findings"]] == ["D207", "D510"]


@pytest.mark.parametrize(("strict", "failures"), [(False, ["D207"]), (True, ["D207"])])
def test_junit_is_xml_with_a_suite_a_layer_and_a_case_a_check(strict: bool, failures: list[str]) -> None:
    root = ElementTree.fromstring(render_junit(REPORT, Severity.NOTE, strict=strict))
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == ["hardware", "driver", "compute", "surroundings", "cloud"]
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        assert suite.get("skipped") == str(len(suite.findall("testcase/skipped")))
        assert all(case.get("name") and case.get("classname") for case in cases)
    assert [failure.get("type") for failure in root.iter("failure")] == failures
    output = "".join(root.find(".//failure").itertext())  # pyright: ignore[reportOptionalMemberAccess]
    assert ("D510" in output) is strict
    assert "a control character: ? & <tag>" in output


PRIVATE = Private(home="/home/jane", user="jane", host="jane-laptop")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("/home/jane/venv/bin/python", "~/venv/bin/python"),
        ("/home/bob/data", "/home/<user>/data"),
        ("host jane-laptop, user jane", "host <host>, user <user>"),
        ("arn:aws:iam::123456789012:role/train", "arn:..."),
        ("account 123456789012", "account <account>"),
        ("ip-10-0-3-7.ec2.internal", "<host>"),
        ("at 10.0.3.7:22", "at <address>:22"),
        ("i-0abc123def4567890 in subnet-0abc1234", "<aws id> in <aws id>"),
        ("AKIAIOSFODNN7EXAMPLE", "<access key>"),
        ("jane.doe+ml@example.com", "<mail>"),
        ("GPU-3f2a1b0c-1111-2222-3333-444455556666", "GPU-<uuid>"),
        ("driver 580.95.05, CUDA 12.4, cuDNN 9.10.2", "driver 580.95.05, CUDA 12.4, cuDNN 9.10.2"),
        ("nvidia-cudnn-cu12 9.10.2.21", "nvidia-cudnn-cu12 9.10.2.21"),
        ("0000:00:1e.0: A10G, 24146608128 bytes", "0000:00:1e.0: A10G, 24146608128 bytes"),
        ("janet and janeway", "janet and janeway"),
    ],
)
def test_a_report_for_an_issue_has_nothing_of_whose_it_is(text: str, output: str) -> None:
    assert redact(text, PRIVATE) == output


def test_only_known_variables_are_reported(scenario_machine: Callable[[str], Machine]) -> None:
    from dataclasses import replace

    machine = scenario_machine("torch_cpu_quick")
    secret = {
        "AWS_SECRET_ACCESS_KEY": "hush",
        "HF_TOKEN": "hf_hush",
        "TF_MY_TOKEN": "hush",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    machine = replace(machine, environment={**machine.environment, **secret})
    output = render_markdown(examine(machine, CHECKS), machine, PRIVATE)
    assert "hush" not in output
    assert "`CUDA_VISIBLE_DEVICES=0`" in output
    assert "| framework | failed |" in output
    assert "**D402 error**" in output
    assert "torch 2.11.0+cpu" in output
