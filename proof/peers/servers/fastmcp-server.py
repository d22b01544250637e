#!/usr/bin/env python3
"""A server nobody here wrote the inside of: FastMCP.  fastmcp-server.py PORT|stdio FOLDER

It keeps tasks of 2026-07-28 in its own memory. Every call of `echo`, `steps` and `held` leaves a line in FOLDER/begun; the last two
work until FOLDER/open exists, and `held` leaves a line in FOLDER/stopped if it is cancelled before. The other tools are those that
../clients call."""

import asyncio
import datetime
import logging
import pathlib
import sys

logging.disable(logging.INFO)
import fastmcp_tasks  # registers the tasks extension
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

port, folder = sys.argv[1], pathlib.Path(sys.argv[2])
server = FastMCP("peer")
server.add_extension(fastmcp_tasks.TasksExtension())


def note(file: str, line: str) -> None:
    with open(folder / file, "a") as notes:
        notes.write(line + "\n")


def begin(label: str) -> None:
    note("begun", label)


@server.tool
async def echo(text: str) -> str:
    begin("echo")
    return text


async def wait() -> None:
    while not (folder / "open").exists():
        await asyncio.sleep(0.05)


@server.tool
async def steps(ctx: Context, label: str) -> str:
    begin(label)
    await ctx.report_progress(1, 2, f"{label} has begun")
    await wait()
    return f"{label} is done"


def task(mode: str):
    return server.tool(task=TaskConfig(mode=mode, poll_interval=datetime.timedelta(seconds=0.1)))


@task("optional")
async def held(label: str) -> str:
    begin(label)
    try:
        await wait()
    except asyncio.CancelledError:
        note("stopped", label)
        raise
    return f"{label} is done"


@server.tool
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@task("optional")
async def slow_compute(seconds: float, label: str) -> str:
    await asyncio.sleep(seconds)
    return f"{label} took {seconds}s"


@task("optional")
async def large(size: int) -> str:
    return "é" * size


@task("required")
async def failing_job() -> str:
    raise ToolError("it did not work")


@task("optional")
async def protocol_error_job() -> str:
    raise MCPError(code=-32050, message="it went wrong")


def form(message: str, name: str, kind: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


@task("required")
async def confirm_delete(ctx: Context, filename: str) -> str | InputRequiredResult:
    if not ctx.input_responses:
        return InputRequiredResult(
            input_requests={"confirm": form(f"Delete {filename}?", "confirm", "boolean")}
        )
    answer = ctx.input_responses["confirm"]
    confirmed = str((answer.content or {}).get("confirm")).lower()
    return f"{filename}: {answer.action} {confirmed}"


@task("required")
async def multi_input(ctx: Context) -> str | InputRequiredResult:
    if not ctx.input_responses:
        asked = {key: form(key, "value", "string") for key in ("one", "two")}
        return InputRequiredResult(input_requests=asked)
    return " ".join(ctx.input_responses[key].content["value"] for key in ("one", "two"))


if port == "stdio":
    server.run(transport="stdio", show_banner=False)
else:
    print(f"peer listens on {port}", file=sys.stderr, flush=True)
    server.run(transport="http", host="127.0.0.1", port=int(port), path="/mcp", show_banner=False)
