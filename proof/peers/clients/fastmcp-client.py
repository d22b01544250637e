#!/usr/bin/env python3
"""Third-party client check, 2026-07-28 tasks extension, with FastMCP's Client + fastmcp-tasks.
  fastmcp-client.py URL [options]   |   fastmcp-client.py [options] --stdio CMD ARG...
Restart drill: --phase create --ref F (starts the slow tool, writes the task id) / --phase resume --ref F.
Prints one JSON object; exit 0 iff all checks pass (minus --allow)."""

import argparse, asyncio, json, sys, logging, importlib.metadata as md

logging.disable(logging.CRITICAL)
import fastmcp_tasks  # registers the client half of the tasks extension
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task, ToolTask
from fastmcp_tasks.client import _send_get, _send_update, _send_cancel

try:
    from mcp.shared.exceptions import McpError
except ImportError:
    from mcp import MCPError as McpError
ap = argparse.ArgumentParser()
ap.add_argument("url", nargs="?")
for n, d in dict(
    sync="greet",
    slow="slow_compute",
    fail="failing_job",
    proto="protocol_error_job",
    elicit="confirm_delete",
    multi="multi_input",
    compose="test_tool_with_task",
).items():
    ap.add_argument(f"--{n}", default=d)
for n, d in {
    "sync-args": '{"name":"World"}',
    "slow-args": '{"seconds":2,"label":"fm"}',
    "long-args": '{"seconds":60,"label":"fm-long"}',
    "elicit-args": '{"filename":"a.txt"}',
    "elicit-answer": '{"confirm":true}',
    "multi-answer": '{"value":"v"}',
    "compose-answer": '{"name":"Alice"}',
    "compose-want": "Alice",
}.items():
    ap.add_argument(f"--{n}", default=d)
ap.add_argument("--header", action="append", default=[])
ap.add_argument("--allow", default="")
ap.add_argument("--timeout", type=float, default=90)
ap.add_argument("--phase", default="all")
ap.add_argument("--ref", default="fastmcp.ref")
ap.add_argument("--mode", default="2026-07-28")
ap.add_argument("--stdio", nargs=argparse.REMAINDER)
A = ap.parse_args()
checks, asked, ans = [], [], {"v": json.loads(A.elicit_answer)}


def ck(i, ok, d=None):
    checks.append({"id": i, "ok": bool(ok), **({} if d is None else {"detail": d})})
    return bool(ok)


async def on_elicit(message, response_type, params, ctx):
    asked.append(message)
    return ElicitResult(action="accept", content=ans["v"])


def txt(r):
    return "|".join(getattr(c, "text", c.type) for c in r.content)


async def guard(i, f):
    try:
        await f()
    except Exception as e:
        ck(f"{i}:no-exception", False, f"{type(e).__name__}: {str(e)[:300]}")


async def code(coro):
    try:
        r = await coro
    except McpError as e:
        return e.error.code
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:150]}"
    return f"no error: {r!r}"[:150]


def transport():
    if A.stdio:
        return StdioTransport(command=A.stdio[0], args=A.stdio[1:])
    return StreamableHttpTransport(
        A.url,
        headers=dict(x.split(":", 1)[0:1] + [x.split(":", 1)[1].strip()] for x in A.header)
        if A.header
        else None,
    )


async def everything(c: Client):
    tools = {t.name for t in await c.list_tools()}
    want = {x for x in (A.sync, A.slow, A.fail, A.proto, A.elicit, A.multi, A.compose) if x}
    ck("tools-listed", want <= tools, sorted(want - tools))

    async def f():
        r = await c.call_tool(A.sync, json.loads(A.sync_args))
        ck("sync-call", r.content and not r.is_error, txt(r))

    if A.sync:
        await guard("sync", f)

    async def f():
        r = await c.call_tool(A.slow, json.loads(A.slow_args))
        ck("transparent-call_tool", not r.is_error and r.content, txt(r))
        t = await call_tool_task(c, A.slow, json.loads(A.slow_args))
        cr = t.create_result
        ck("create-working", cr.status == "working", cr.status)
        ck("create-ttl-poll", cr.ttl_ms is None or cr.ttl_ms > 0, [cr.ttl_ms, cr.poll_interval_ms])
        s = await t.status()
        ck("immediate-status", s.task_id == t.task_id and s.status in ("working", "completed"), s.status)
        s = await t.wait(timeout=30)
        ck("wait-completed", s.status == "completed" and s.result, s.status)
        r = await t.result()
        ck("result", not r.is_error and r.content, txt(r))
        r2 = await t.status()
        ck("terminal-stable", r2.status == "completed" and r2.result == s.result)
        await t.cancel()
        ck("cancel-terminal-is-acked", (await t.status()).status == "completed")

    if A.slow:
        await guard("slow", f)

    async def f():
        t = await call_tool_task(c, A.slow, json.loads(A.long_args))
        await t.cancel()
        s = await t.wait(timeout=15)
        ck("cancel-settles-cancelled", s.status == "cancelled", s.status)
        ck("cancelled-result-raises", "ToolError" in str(await code(t.result())), None)

    if A.slow:
        await guard("cancel", f)

    async def f():
        t = await call_tool_task(c, A.fail, {}, raise_on_error=False)
        s = await t.wait(timeout=20)
        ck("iserror-completed", s.status == "completed" and (s.result or {}).get("isError") is True, s.status)

    if A.fail:
        await guard("fail", f)

    async def f():
        t = await call_tool_task(c, A.proto, {}, raise_on_error=False)
        s = await t.wait(timeout=20)
        ck(
            "protocol-error-failed",
            s.status == "failed" and isinstance((s.error or {}).get("code"), int) and s.result is None,
            [s.status, s.error],
        )

    if A.proto:
        await guard("proto", f)
    for i, tool, args, a, n in (
        ("elicit", A.elicit, json.loads(A.elicit_args), json.loads(A.elicit_answer), 1),
        ("multi", A.multi, {}, json.loads(A.multi_answer), 2),
    ):

        async def f():
            ans["v"] = a
            b = len(asked)
            r = await c.call_tool(tool, args)
            ck(f"{i}-transparent", not r.is_error, txt(r))
            ck(f"{i}-asked-{n}", len(asked) - b == n, asked[b:])
            t = await call_tool_task(c, tool, args)
            s = await t.wait(state="input_required", timeout=15)
            keys = list(s.input_requests or {})
            ck(
                f"{i}-input_requests-{n}",
                len(keys) == n
                and all((s.input_requests[k] or {}).get("method") == "elicitation/create" for k in keys),
                keys,
            )
            for j, k in enumerate(keys):
                await _send_update(c.session, t.task_id, {k: {"action": "accept", "content": a}})
                if j + 1 < len(keys):
                    s = await t.status()
                    ck(
                        f"{i}-partial-keeps-rest",
                        s.status == "input_required" and set(s.input_requests) == set(keys[j + 1 :]),
                        [s.status, list(s.input_requests or {})],
                    )
            await _send_update(
                c.session,
                t.task_id,
                {keys[0]: {"action": "accept", "content": a}, "bogus": {"action": "cancel"}},
            )  # replay + unknown key must be ignored and acked
            s = await t.wait(timeout=15)
            ck(f"{i}-manual-completed", s.status == "completed", s.status)

        if tool:
            await guard(i, f)

    async def f():
        ans["v"] = json.loads(A.compose_answer)
        r = await c.call_tool(A.compose, {})
        ck("compose", A.compose_want in txt(r), txt(r))

    if A.compose:
        await guard("compose", f)
    for i, call in (
        ("get", _send_get(c.session, "no-such-task")),
        ("update", _send_update(c.session, "no-such-task", {})),
        ("cancel", _send_cancel(c.session, "no-such-task")),
    ):
        ck(f"unknown-{i}-32602", (x := await code(call)) == -32602, x)


async def main():
    async with Client(transport(), mode=A.mode, elicitation_handler=on_elicit, timeout=30) as c:
        if A.phase == "create":
            t = await call_tool_task(c, A.slow, json.loads(A.slow_args))
            open(A.ref, "w").write(
                json.dumps({"task": t.create_result.model_dump(by_alias=True, mode="json"), "tool": A.slow})
            )
            ck("created", True, t.task_id)
        elif A.phase == "resume":
            tid = json.load(open(A.ref))["task"]["taskId"]
            end = asyncio.get_event_loop().time() + A.timeout - 5
            while (s := await _send_get(c.session, tid)).status not in (
                "completed",
                "failed",
                "cancelled",
            ) and asyncio.get_event_loop().time() < end:
                await asyncio.sleep(0.3)
            ck("resume-completed", s.status == "completed", [s.status, s.result or s.error])
        else:
            await everything(c)


crash = None
try:
    asyncio.run(asyncio.wait_for(main(), A.timeout))
except BaseException as e:
    crash = f"{type(e).__name__}: {e}"
allow = {a for a in A.allow.split(",") if a}
bad = [c["id"] for c in checks if not c["ok"] and c["id"] not in allow]
stale = [c["id"] for c in checks if c["ok"] and c["id"] in allow]
print(
    json.dumps(
        {
            "client": f"fastmcp {md.version('fastmcp')} + fastmcp-tasks {md.version('fastmcp-tasks')} + mcp {md.version('mcp')}",
            "target": A.url or A.stdio,
            "passed": sum(c["ok"] for c in checks),
            "failed": sum(not c["ok"] for c in checks),
            "unexpected": bad,
            "stale_allow": stale,
            "crash": crash,
            "checks": checks,
        },
        indent=1,
        default=str,
    )
)
sys.exit(1 if bad or stale or crash or not checks else 0)
