"""The MCP server: runs each call of a tool as a command of its own, and adds what to do next to its JSON document."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from gpuproof.cli.assistants.guide import EXIT_CODES, INSTRUCTIONS
from gpuproof.cli.assistants.next_steps import Answer, Step, next_steps
from gpuproof.cli.assistants.tools import TOOLS, Tool, command_words, input_schema
from gpuproof.errors import ExitCode, UsageError
from gpuproof.version import __version__

_MAX_LINE = 1 << 20
"""Longest line of a command's progress, in bytes."""


class Ended(NamedTuple):
    """A command that has ended."""

    exit_code: int
    output: str
    errors: str


def serve(folder: Path, allow_spend: float | None) -> None:
    """Serve on standard input and output until the client closes them.

    Args:
        folder: the working directory of the commands.
        allow_spend: what runs and endpoints of this session may cost together, in USD; None leaves out all tools that may cost
            money or change something.
    """
    asyncio.run(_serve(Commands(folder, allow_spend)))


async def _serve(commands: Commands) -> None:
    server = Server(
        "gpuproof",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=commands.list_tools,
        on_call_tool=commands.call_tool,
    )
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


class Commands:
    """The tools of one session.

    Args:
        folder: the working directory of the commands.
        allow_spend: what the session may cost, in USD; None for a session that cannot cost anything.
    """

    def __init__(self, folder: Path, allow_spend: float | None) -> None:
        self._folder = folder
        self._left = allow_spend
        self._tools = {tool.name: tool for tool in TOOLS if allow_spend is not None or not tool.spends}
        self._spending = asyncio.Lock()
        """Held while a command that may cost money runs, so that two of them do not spend the same amount."""

    async def list_tools(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The tools of this session."""
        return types.ListToolsResult(tools=[_description(tool) for tool in self._tools.values()])

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Run a tool; a failed command is a result with its error, exit code and JSON document."""
        arguments = params.arguments or {}
        try:
            tool = self._find(params.name)
            words = command_words(tool, arguments)
        except UsageError as error:
            return _result({"exit_code": int(error.exit_code), "error": _error_text(error)}, is_error=True)
        text = None if tool.text is None else arguments.get(tool.text)
        if tool.spends:
            async with self._spending:
                ended = await self._spend(context, tool, words, arguments)
        else:
            ended = await _run(_with_options(words, "--format=json"), self._folder, context, text)
        document = _document(ended.output)
        answer = Answer(arguments, ended.exit_code, document)
        for member in tool.omit:
            document.pop(member, None)
        content: dict[str, Any] = {
            "command": shlex.join(["gpuproof", *words]),
            "exit_code": ended.exit_code,
            "meaning": EXIT_CODES.get(ended.exit_code, "ended by a signal"),
            "result": document or None,
            "next": [self._step(step) for step in next_steps(tool.name, answer)],
        }
        if not document or ended.exit_code not in (ExitCode.OK, ExitCode.FAILED):
            content["error"] = ended.errors.strip() or ended.output.strip() or None
        if tool.spends:
            content["left_usd"] = self._left
        return _result(content, is_error=not document)

    def _find(self, name: str) -> Tool:
        if (tool := self._tools.get(name)) is not None:
            return tool
        if name in {tool.name for tool in TOOLS}:
            raise UsageError(
                f"The tool {name} may cost money or change something, and this server was started without an allowance.",
                remedy="The user starts it with: gpuproof mcp --allow-spend USD",
            )
        raise UsageError(f"There is no tool {name}.", remedy=f"The tools are: {', '.join(self._tools)}.")

    async def _spend(
        self, context: ServerRequestContext[Any], tool: Tool, words: list[str], arguments: Mapping[str, Any]
    ) -> Ended:
        """Run a command with what is left of the allowance as its limit, and take off what it may cost at most."""
        has_limit = tool.name in ("run", "deploy") and not arguments.get("dry_run")
        limit = [f"--max-cost={self._left}"] if has_limit else []
        ended = await _run(_with_options(words, *limit, "--format=json"), self._folder, context)
        # A command that failed has undone what it created.
        if has_limit and self._left is not None and ended.exit_code == ExitCode.OK:
            # A document without a cost is that of a run whose cost is unknown here: count all that was left.
            self._left -= _document(ended.output).get("max_usd", self._left)
        return ended

    def _step(self, step: Step) -> dict[str, Any]:
        if step.tool is None:
            return {"command": step.command, "reason": step.reason}
        known = {tool.name: tool for tool in TOOLS}
        command = shlex.join(["gpuproof", *command_words(known[step.tool], step.arguments)])
        if step.tool not in self._tools:
            return {"command": command, "reason": step.reason}
        return {
            "tool": step.tool,
            "arguments": dict(step.arguments),
            "command": command,
            "reason": step.reason,
        }


def _description(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.summary,
        input_schema=input_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.spends, destructive_hint=tool.deletes, open_world_hint=tool.spends
        ),
    )


def _with_options(words: list[str], *options: str) -> list[str]:
    """A command with further options, before the script's own arguments."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *options, *words[end:]]


async def _run(
    words: list[str], folder: Path, context: ServerRequestContext[Any], text: str | None = None
) -> Ended:
    """Run a command. Lines of its standard error are reported as progress; a cancelled call ends it with SIGTERM, and waits
    until it has undone what it created."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuproof",
        *words,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL if text is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_MAX_LINE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        output, errors, _ = await asyncio.gather(
            process.stdout.read(), _follow(process.stderr, context), _feed(process, text)
        )
        return Ended(await process.wait(), output.decode(errors="replace"), errors)
    except BaseException:
        # A cancelled request is cancelled at each `await`, but in a shield.
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await asyncio.gather(process.stdout.read(), process.stderr.read(), process.wait())
        raise


async def _follow(stream: asyncio.StreamReader, context: ServerRequestContext[Any]) -> str:
    lines: list[str] = []
    while line := await stream.readline():
        lines.append(line.decode(errors="replace"))
        await context.session.report_progress(len(lines), message=lines[-1].strip())
    return "".join(lines)


async def _feed(process: asyncio.subprocess.Process, text: str | None) -> None:
    if text is None or process.stdin is None:
        return
    try:
        process.stdin.write(text.encode())
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has read enough
    finally:
        process.stdin.close()


def _document(output: str) -> dict[str, Any]:
    try:
        document = json.loads(output)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _error_text(error: UsageError) -> str:
    return error.message if error.remedy is None else f"{error.message}\n{error.remedy}"


def _result(content: dict[str, Any], *, is_error: bool) -> types.CallToolResult:
    text = json.dumps(content, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=content, is_error=is_error
    )
