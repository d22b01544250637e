#!/usr/bin/env python3
"""A server nobody here wrote the inside of: FastMCP over Streamable HTTP.  fastmcp-server.py PORT FOLDER

It keeps tasks of 2026-07-28 in its own memory. Every call leaves a line in FOLDER/begun; `held` works until FOLDER/open exists."""

import asyncio
import logging
import pathlib
import sys

logging.disable(logging.INFO)
import fastmcp_tasks  # registers the tasks extension
from fastmcp import Context, FastMCP

port, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
server = FastMCP("peer")
server.add_extension(fastmcp_tasks.TasksExtension())


def begin(label: str) -> None:
    with open(folder / "begun", "a") as begun:
        begun.write(label + "\n")


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


@server.tool(task=True)
async def held(label: str) -> str:
    begin(label)
    await wait()
    return f"{label} is done"


print(f"peer listens on {port}", file=sys.stderr, flush=True)
server.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False)
