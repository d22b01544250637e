#!/usr/bin/env python3
"""A server nobody here wrote the inside of: the Python SDK over Streamable HTTP.
  py-legacy-server.py PORT FOLDER sessions|stateless|json

Every call leaves a line in FOLDER/begun; `steps` works until FOLDER/open exists."""

import asyncio
import pathlib
import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

port, folder, mode = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
server = FastMCP(
    "peer",
    host="127.0.0.1",
    port=port,
    stateless_http=mode == "stateless",
    json_response=mode == "json",
    log_level="WARNING",
)


class Name(BaseModel):
    name: str


def begin(label: str) -> None:
    with open(folder / "begun", "a") as begun:
        begun.write(label + "\n")


@server.tool()
async def echo(text: str) -> str:
    begin("echo")
    return text


@server.tool()
async def steps(label: str, ctx: Context) -> str:
    begin(label)
    await ctx.report_progress(1, 2, f"{label} has begun")
    while not (folder / "open").exists():
        await asyncio.sleep(0.05)
    return f"{label} is done"


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who is there?", Name)
    return f"{answer.action}: {answer.data.name if answer.action == 'accept' else ''}"


print(f"peer listens on {port}", file=sys.stderr, flush=True)
server.run(transport="streamable-http")
