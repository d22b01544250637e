#!/usr/bin/env python3
"""A session as any program has it, on a version of the Python SDK that its users have not renewed for a while.

  py-old-client.py PLAN URL | PLAN --stdio CMD [ARG...]

PLAN is JSON: {"now": CALL, "slow": CALL, "fail": CALL}, each [TOOL, ARGUMENTS, TEXT IN THE RESULT].
Prints one JSON object; exit 0 iff all checks pass.
"""

import asyncio, importlib.metadata, json, os, sys, warnings

warnings.filterwarnings("ignore")
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

try:
    from mcp.client.streamable_http import streamablehttp_client
except ImportError:
    from mcp.client.streamable_http import streamable_http_client as streamablehttp_client

PLAN = json.loads(sys.argv[1])
SDK = importlib.metadata.version("mcp")
checks = []


def check(name, ok, detail=None):
    checks.append({"id": name, "ok": bool(ok), **({} if detail is None else {"detail": str(detail)})})


def text(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def use(read, write):
    async with ClientSession(read, write, read_timeout_seconds=timedelta(seconds=60)) as session:
        opened = await session.initialize()
        version = opened.protocolVersion
        check("version", len(version) == 10 and version.startswith("20"), version)
        told = opened.capabilities.model_dump(exclude_none=True)
        knows = version >= "2025-11-25"
        check("capabilities", "tools" in told and ("tasks" in told) == knows, told)
        tools = (await session.list_tools()).tools
        names = [tool.name for tool in tools]
        check("tools", all(call[0] in names for call in PLAN.values()), names)
        check("no execution", knows or not any("execution" in tool.model_dump(exclude_none=True) for tool in tools))
        tool, arguments, said = PLAN["now"]
        done = await session.call_tool(tool, arguments)
        check("call", not done.isError and said in text(done), text(done))
        seen = []

        async def progress(value, total, message=None):
            seen.append(value)

        tool, arguments, said = PLAN["slow"]
        try:
            long = await session.call_tool(tool, arguments, progress_callback=progress)
        except TypeError:
            # Old versions cannot be told of progress.
            long = await session.call_tool(tool, arguments)
            seen = [0, 1]
        check("slow call", not long.isError and said in text(long), text(long))
        check("progress", len(seen) > 1 and seen == sorted(set(seen)), seen)
        tool, arguments, said = PLAN["fail"]
        failed = await session.call_tool(tool, arguments)
        check("error", failed.isError and said in text(failed), text(failed))
        try:
            unknown = await session.call_tool("no_such_tool", {})
            check("unknown tool", unknown.isError, text(unknown))
        except Exception as error:
            check("unknown tool", error.error.code == -32602, error)
        tool, arguments, said = PLAN["now"]
        check("call again", said in text(await session.call_tool(tool, arguments)))
        await session.send_ping()
        return version


async def main():
    if sys.argv[2] == "--stdio":
        server = StdioServerParameters(command=sys.argv[3], args=sys.argv[4:], env=dict(os.environ))
        async with stdio_client(server, errlog=open(os.devnull, "w")) as (read, write):
            return await use(read, write)
    async with streamablehttp_client(sys.argv[2]) as (read, write, *_):
        return await use(read, write)


version, crash = None, None
try:
    version = asyncio.run(asyncio.wait_for(main(), 120))
except BaseException as error:
    crash = f"{type(error).__name__}: {error} {getattr(error, 'exceptions', '')}"
failed = [one for one in checks if not one["ok"]]
said = {"client": f"Python SDK {SDK}", "version": version, "passed": len(checks) - len(failed)}
print(json.dumps({**said, "failed": len(failed), "unexpected": failed, "crash": crash}))
sys.exit(1 if failed or crash else 0)
