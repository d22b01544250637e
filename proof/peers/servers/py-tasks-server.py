#!/usr/bin/env python3
"""A server nobody here wrote the inside of: the Python SDK 1.x with its tasks of 2025-11-25, which it keeps in memory.
  py-tasks-server.py PORT|stdio FOLDER

The tools are those that ../clients call. Every `held` leaves a line in FOLDER/begun, works until FOLDER/open exists, and leaves one
in FOLDER/stopped if it is cancelled before."""

import contextlib
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
import anyio
import mcp.types as t
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from starlette.applications import Starlette
from starlette.routing import Mount

port, folder = sys.argv[1], pathlib.Path(sys.argv[2])
server = Server("py-tasks")
tasks = server.experimental.enable_tasks()

STRING, NUMBER, BOOLEAN = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
TOOLS = {
    "slow_compute": ("optional", {"seconds": NUMBER, "label": STRING}),
    "held": ("optional", {"label": STRING}),
    "large": ("optional", {"size": NUMBER}),
    "failing_job": ("required", {}),
    "protocol_error_job": ("optional", {}),
    "confirm_delete": ("required", {"filename": STRING}),
    "multi_input": ("required", {}),
}


def note(file: str, line: str) -> None:
    with open(folder / file, "a") as notes:
        notes.write(line + "\n")


def text(said: str, wrong: bool = False) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=said)], isError=wrong)


def schema(properties: dict) -> dict:
    return {"type": "object", "properties": properties, "required": list(properties)}


@server.list_tools()
async def list_tools() -> list[t.Tool]:
    plain = t.Tool(name="greet", inputSchema=schema({"name": STRING}))
    return [plain] + [
        t.Tool(name=name, inputSchema=schema(properties), execution=t.ToolExecution(taskSupport=support))
        for name, (support, properties) in TOOLS.items()
    ]


async def work(name: str, given: dict, task) -> t.CallToolResult:
    async def is_cancelled() -> bool:
        return (await tasks.store.get_task(task.task_id)).status == "cancelled"

    async def ask(message: str, name: str, kind: dict) -> t.ElicitResult:
        return await task.elicit(message, schema({name: kind}))

    match name:
        case "slow_compute":
            end = anyio.current_time() + given["seconds"]
            while anyio.current_time() < end:
                if await is_cancelled():
                    await anyio.sleep_forever()
                await anyio.sleep(0.05)
            return text(f"{given['label']} took {given['seconds']}s")
        case "held":
            note("begun", given["label"])
            while not (folder / "open").exists():
                if await is_cancelled():
                    note("stopped", given["label"])
                    # Whatever a cancelled task returns or raises ends its whole session, with all its other tasks.
                    await anyio.sleep_forever()
                await anyio.sleep(0.05)
            return text(f"{given['label']} is done")
        case "large":
            return text("é" * int(given["size"]))
        case "failing_job":
            return text("it did not work", wrong=True)
        case "confirm_delete":
            answer = await ask(f"Delete {given['filename']}?", "confirm", BOOLEAN)
            confirmed = str((answer.content or {}).get("confirm")).lower()
            return text(f"{given['filename']}: {answer.action} {confirmed}")
        case "multi_input":
            # One after the other: asked at a time, both may get the same id.
            answers = [(await ask(key, "value", STRING)).content["value"] for key in ("one", "two")]
            return text(" ".join(answers))
    raise McpError(t.ErrorData(code=-32050, message="it went wrong"))


@server.call_tool(validate_input=False)
async def call_tool(name: str, given: dict):
    if name == "greet":
        return text(f"Hello, {given['name']}!")
    context = server.request_context.experimental
    context.validate_task_mode(TOOLS[name][0])
    if not context.is_task:
        return text(f"{name} is a task here", wrong=True)
    return await context.run_task(lambda task: work(name, given, task))


async def main() -> None:
    if port == "stdio":
        async with stdio_server() as (read, write):
            return await server.run(read, write, server.create_initialization_options())
    sessions = StreamableHTTPSessionManager(app=server)

    @contextlib.asynccontextmanager
    async def running(_):
        async with sessions.run():
            yield

    app = Starlette(routes=[Mount("/", app=sessions.handle_request)], lifespan=running)
    print(f"peer listens on {port}", file=sys.stderr, flush=True)
    await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=int(port), log_level="error")).serve()


anyio.run(main)
