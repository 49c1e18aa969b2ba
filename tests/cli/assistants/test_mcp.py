"""Ten tasks that an assistant finishes with `llms.txt` alone: it begins with the command named there, and each answer names the next."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from gpuproof.cli.assistants.guide import TASKS
from gpuproof.cli.assistants.tools import TOOLS
from gpuproof.cli.main import main
from support.aws_emulator import RunningEmulator, running_emulator
from support.endpoint_sandbox import ECHO, SCHEDULER_TRUST, waits_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TRAIN = """
import torch

model = torch.nn.Linear({width}, {width}, device="cuda")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    loss = model(torch.zeros({batch}, {width}, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Assistant:
    """A client of one server that follows only what it is told.

    Args:
        client: of a server on standard input and output.
        folder: the server's working directory.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self.folder = folder
        self.answer: dict[str, Any] = {}
        self.is_error = False

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def begin(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool whose command is the first of a task in `llms.txt`."""
        command = next(found.command for found in TOOLS if found.name == tool)
        firsts = [task.commands[0] for task in TASKS if task.commands[0].split()[1] == command]
        assert firsts
        assert f"`{firsts[0]}`" in (ROOT / "llms.txt").read_text()
        return await self.call(tool, **arguments)

    async def follow(self, tool: str, **replaced: Any) -> dict[str, Any]:
        """Call a tool that the last answer names, with its arguments."""
        step = next((step for step in self.answer["next"] if step.get("tool") == tool), None)
        assert step is not None, self.answer
        return await self.call(tool, **{**step["arguments"], **replaced})

    def command(self, start: str) -> str:
        """The command that the last answer tells the user to type."""
        return next(step["command"] for step in self.answer["next"] if step["command"].startswith(start))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        self.is_error = bool(result.is_error)
        self.answer = json.loads(result.content[0].text)  # type: ignore[union-attr]
        print(json.dumps(self.answer)[:4000])
        return self.answer["result"] if self.answer.get("result") is not None else self.answer


Scenario = Callable[[Assistant], Coroutine[Any, Any, None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run a scenario against a server of its own."""
    project = tmp_path / "project"
    project.mkdir()

    def run(scenario: Scenario, *options: str, environment: dict[str, str] | None = None) -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "gpuproof", "mcp", *options],
            cwd=str(project),
            env={
                **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
                "HOME": str(tmp_path),
                "OMP_NUM_THREADS": "1",
                **(environment or {}),
            },
        )

        async def session() -> None:
            async with Client(server) as client:
                await scenario(Assistant(client, project))

        asyncio.run(session())

    return run


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with running_emulator(tmp_path_factory.mktemp("aws"), stop_grace=1.0) as running:
        yield running


@pytest.fixture
def account(emulator: RunningEmulator, tmp_path: Path) -> dict[str, str]:
    role = emulator.client("iam").create_role(
        RoleName=tmp_path.name[-60:], AssumeRolePolicyDocument=json.dumps(SCHEDULER_TRUST)
    )
    return {
        **emulator.environment,
        "GPUPROOF_SCHEDULE_ROLE_ARN": role["Role"]["Arn"],
        "GPUPROOF_CACHE_DIR": str(emulator.state.parent / "cache"),
        "GPUPROOF_ROLE_ARN": emulator.role,
    }


def test_idle_gpus_are_found_and_the_rule_is_read(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        example = str(ROOT / "examples" / "wasteful-job")
        found = await assistant.begin("check", paths=[example], select=["DS101"])
        assert [finding["code"] for finding in found["findings"]] == ["DS101"]
        rule = await assistant.follow("rule")
        assert rule["rules"][0]["code"] == "DS101"
        again = await assistant.follow("check", paths=[example], ignore=["ALL"])
        assert again["findings"] == []
        assert assistant.answer["exit_code"] == 0

    play(scenario)


def test_a_gpu_is_chosen_and_the_run_is_named(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        (assistant.folder / "train.py").write_text(TRAIN.format(width=64, batch=8))
        plan = await assistant.begin("plan", script="train.py", region="eu-west-1")
        best = plan["recommendation"]
        assert "operators" not in plan
        command = assistant.command("gpuproof run train.py")
        assert f"--instance-type={best['instance_type']}" in command
        assert "--dry-run" in command
        assert "--region=eu-west-1" in command

    play(scenario)


def test_a_model_that_fits_no_gpu_is_made_to_fit(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        (assistant.folder / "train.py").write_text(TRAIN.format(width=150_000, batch=8))
        plan = await assistant.call("plan", script="train.py")
        assert plan["recommendation"] is None
        assert (await assistant.follow("plan"))["fit_options"]
        assert "--fit" in assistant.answer["command"]

    play(scenario)


def test_an_instance_type_is_looked_up(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        listed = await assistant.begin("gpus", names=["A100"])
        facts = await assistant.follow("gpus")
        assert facts["instance"]["name"] == listed["instances"][0]["type"]
        assert facts["instance"]["gpu_model"] == "A100-40GB"
        assert assistant.command("gpuproof plan SCRIPT")

    play(scenario)


def test_an_error_text_is_explained(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
        found = await assistant.begin("explain", text=text)
        assert "out-of-memory" in found["explanations"][0]["code"]
        assert assistant.answer["meaning"].startswith("findings")
        assert assistant.command("gpuproof plan SCRIPT")

    play(scenario)


def test_the_gpu_stack_of_this_machine_is_checked(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        report = await assistant.begin("doctor", quick=True)
        assert report["layers"]
        expected = {0: "check", 1: None, 3: "gpus"}  # by exit code: well, broken, no GPU
        assert assistant.answer["next"][0].get("tool") == expected[assistant.answer["exit_code"]]

    play(scenario)


def test_a_job_is_tried_on_this_machine(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        # It is looked at also before its end.
        (assistant.folder / "train.py").write_text("import time; time.sleep(2)")
        await assistant.begin("run", target="train.py", require_gpu=False)
        assert assistant.answer["left_usd"] == 0
        shown = await assistant.follow("verdict")
        while shown["run"]["ended"] is None:
            shown = await assistant.follow("verdict")
        assert shown["run"]["status"] == "Completed"
        assert assistant.command(f"gpuproof pull {shown['run']['id']} --on local")

    play(scenario, "--allow-spend", "0")


def test_a_run_on_aws_stays_within_its_limit(play: Play, account: dict[str, str]) -> None:
    async def scenario(assistant: Assistant) -> None:
        (assistant.folder / "train.py").write_text(
            "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')"
        )
        job = {"target": "train.py", "on": "sagemaker", "instance_type": "ml.g5.xlarge", "max_duration": "1h"}
        plan = await assistant.begin("run", **job, framework="pytorch", dry_run=True)
        most = plan["instance_types"][0]["max_usd"]
        assert assistant.answer["left_usd"] == 2  # a dry run costs nothing
        started = await assistant.follow("run")
        assert started["max_usd"] == most
        assert assistant.answer["left_usd"] == pytest.approx(2 - most)
        shown = await assistant.follow("verdict")
        while shown["run"]["ended"] is None:
            shown = await assistant.follow("verdict")
        await assistant.follow("explain")
        assert assistant.answer["command"].endswith("--on=sagemaker")
        # What is left does not pay for a second run.
        await assistant.call("run", **job, framework="pytorch")
        assert assistant.is_error
        assert "may cost up to $1.41, and the limit is $0.59" in assistant.answer["error"]
        runs = await assistant.call("ps", on="sagemaker")
        assert [run["id"] for run in runs["runs"]] == [started["id"]]

    play(scenario, "--allow-spend", "2", environment=account)


def test_the_newest_run_is_judged(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        (assistant.folder / "train.py").write_text(
            "import sys; sys.exit('ModuleNotFoundError: No module named torch')"
        )
        started = await assistant.call(
            "run", target="train.py", instance_type="ml.g5.xlarge", require_gpu=False
        )
        while (await assistant.begin("ps"))["runs"][0]["status"] != "Failed":
            pass
        shown = await assistant.follow("verdict")
        assert shown["run"]["id"] == started["id"]
        await assistant.follow("explain")
        assert assistant.answer["result"]["failed"]

    play(scenario, "--allow-spend", "0")


def test_a_model_is_deployed_for_a_limited_time_and_deleted(play: Play, account: dict[str, str]) -> None:
    async def scenario(assistant: Assistant) -> None:
        (assistant.folder / "model" / "code").mkdir(parents=True)
        (assistant.folder / "model" / "code" / "inference.py").write_text(ECHO)
        model = {"model": "model", "name": "echo", "instance_type": "ml.m5.large", "framework": "pytorch"}
        await assistant.call("deploy", **model)
        assert assistant.is_error
        assert "its highest possible cost is unknown" in assistant.answer["error"]
        deployed = await assistant.begin("deploy", **model, ttl="1h")
        assert 0 < deployed["max_usd"] == pytest.approx(3 - assistant.answer["left_usd"])
        assert assistant.command("gpuproof predict echo --data FILE")
        costs = await assistant.begin("cleanup", all=True)
        assert "echo" in [resource["id"] for resource in costs["resources"]]
        await assistant.follow("delete")
        left = await assistant.follow("cleanup", all=True)
        audited = await assistant.begin("audit", days=1, region=["us-east-1"])
        assert audited["kind"] == "audit"
        assert [resource for resource in left["resources"] if resource["id"] == "echo"] == []

    play(scenario, "--allow-spend", "3", environment=account)


def test_a_cancelled_deployment_is_undone(
    play: Play, account: dict[str, str], emulator: RunningEmulator
) -> None:
    client = emulator.client("sagemaker")

    def endpoints() -> list[Any]:
        return client.list_endpoints(NameContains="cancelled")["Endpoints"]

    async def scenario(assistant: Assistant) -> None:
        (assistant.folder / "model" / "code").mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as gate:
            (assistant.folder / "model" / "code" / "inference.py").write_text(waits_for(gate))
            model = {
                "model": "model",
                "name": "cancelled",
                "instance_type": "ml.m5.large",
                "framework": "pytorch",
            }
            deployment = asyncio.create_task(assistant.call("deploy", **model, ttl="1h"))
            await eventually(lambda: bool(endpoints()) or deployment.done())
            assert not deployment.done()
            deployment.cancel()
        # AWS does not delete an endpoint that is being created: the undo waits until its model is loaded.
        await eventually(lambda: not endpoints())
        # The next call waits until the cancelled one has ended; it was not counted.
        await assistant.call("run", target="train.py", on="sagemaker", dry_run=True)
        assert assistant.answer["left_usd"] == 3
        assert client.list_models(NameContains="cancelled")["Models"] == []

    play(scenario, "--allow-spend", "3", environment=account)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition is met, sized for slow machines."""
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.05)


def test_without_the_extra_the_command_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "gpuproof.cli.assistants.server", raising=False)
    assert main(["mcp"]) == 2
    assert 'pip install "gpuproof[mcp]"' in capsys.readouterr().err


def test_without_an_allowance_every_tool_only_reads(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        assert await assistant.tools() == [
            "check",
            "rule",
            "plan",
            "gpus",
            "explain",
            "doctor",
            "ps",
            "verdict",
            "audit",
            "cleanup",
        ]
        await assistant.call("run", target="train.py")
        assert assistant.is_error
        assert "gpuproof mcp --allow-spend USD" in assistant.answer["error"]

    play(scenario)


def test_a_wrong_call_names_the_argument(play: Play) -> None:
    async def scenario(assistant: Assistant) -> None:
        await assistant.call("check", path=["."])
        assert assistant.is_error
        assert assistant.answer["error"] == "The tool check has no argument path.\nDid you mean paths?"
        await assistant.call("verdict", run_name="no-such-run", on="local")
        assert assistant.is_error
        assert assistant.answer["exit_code"] == 2
        assert "gpuproof run train.py" in assistant.answer["error"]

    play(scenario)
