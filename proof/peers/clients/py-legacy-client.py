#!/usr/bin/env python3
"""Third-party client check, 2025-11-25 core tasks, using the Python SDK `mcp` 1.30 experimental tasks client.

  py-legacy-client.py URL [options]
  py-legacy-client.py --stdio CMD [ARG...]         (options before --stdio)

Tool names default to the conformance fixture's. Pass '' to skip a tool. Prints one JSON object; exit 0 iff
every check passed (or is named in --allow). Checks: see `ck(` calls. --allow id,id excuses known deviations;
an excused check that passes is reported under "stale_allow" and also fails the run.
"""

import argparse, asyncio, json, sys, time, warnings

warnings.filterwarnings("ignore")
import mcp.types as t
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError

REL = "io.modelcontextprotocol/related-task"
ap = argparse.ArgumentParser()
ap.add_argument("url", nargs="?")
for n, d in dict(
    sync="greet",
    slow="slow_compute",
    fail="failing_job",
    proto="protocol_error_job",
    elicit="confirm_delete",
    multi="multi_input",
).items():
    ap.add_argument(f"--{n}", default=d)
ap.add_argument("--sync-args", default='{"name":"World"}')
ap.add_argument("--slow-args", default='{"seconds":2,"label":"py"}')
ap.add_argument(
    "--long-args", default='{"seconds":60,"label":"py-long"}', help="args of --slow for the cancel test"
)
ap.add_argument("--elicit-args", default='{"filename":"a.txt"}')
ap.add_argument("--elicit-answer", default='{"confirm":true}')
ap.add_argument("--multi-answer", default='{"value":"v"}')
ap.add_argument(
    "--optional-tools",
    default="slow_compute,protocol_error_job",
    help="tools that must declare taskSupport optional",
)
ap.add_argument(
    "--required-tools",
    default="failing_job,confirm_delete,multi_input",
    help="tools that must declare taskSupport required",
)
ap.add_argument("--header", action="append", default=[], help="'Name: value' (HTTP)")
ap.add_argument("--allow", default="")
ap.add_argument("--timeout", type=float, default=60)
ap.add_argument("--stdio", nargs=argparse.REMAINDER)
A = ap.parse_args()
checks, elicits = [], []


def ck(cid, ok, detail=None):
    checks.append({"id": cid, "ok": bool(ok), **({} if detail is None else {"detail": detail})})
    return bool(ok)


async def on_elicit(ctx, params: t.ElicitRequestParams):
    meta = params.meta.model_dump(by_alias=True) if params.meta else {}
    elicits.append(
        {
            "message": params.message,
            "related": (meta.get(REL) or {}).get("taskId"),
            "answered_at": time.time(),
        }
    )
    ans = A.elicit_answer if current["kind"] == "elicit" else A.multi_answer
    return t.ElicitResult(action="accept", content=json.loads(ans))


current = {"kind": "elicit"}


async def err_code(coro):
    try:
        r = await coro
    except McpError as e:
        return e.error.code
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:120]}"
    return f"no error: {type(r).__name__}"


async def until(s, tid, wanted, timeout=20):
    end = time.time() + timeout
    seen = []
    while time.time() < end:
        g = await s.experimental.get_task(tid)
        if not seen or seen[-1] != g.status:
            seen.append(g.status)
        if g.status in wanted:
            return g, seen
        await asyncio.sleep(min((g.pollInterval or 200) / 1000, 1.0))
    return g, seen


async def scenario(s: ClientSession):
    init = await s.initialize()
    ck("protocol-version-2025-11-25", init.protocolVersion == "2025-11-25", init.protocolVersion)
    caps = init.capabilities.tasks
    ck(
        "cap-tasks-requests-tools-call",
        caps and caps.requests and caps.requests.tools and caps.requests.tools.call is not None,
        caps and caps.model_dump(exclude_none=True),
    )
    ck("cap-tasks-list", caps and caps.list is not None)
    ck("cap-tasks-cancel", caps and caps.cancel is not None)
    tools = {x.name: (x.execution.taskSupport if x.execution else None) for x in (await s.list_tools()).tools}
    for n in [x for x in A.optional_tools.split(",") if x]:
        ck(f"tasksupport-optional:{n}", tools.get(n) == "optional", tools.get(n, "missing"))
    for n in [x for x in A.required_tools.split(",") if x]:
        ck(f"tasksupport-required:{n}", tools.get(n) == "required", tools.get(n, "missing"))
    x = s.experimental
    if A.sync:
        r = await s.call_tool(A.sync, json.loads(A.sync_args))
        ck("sync-call", not r.isError and r.content, [c.model_dump() for c in r.content][:1])
        ck(
            "sync-tool-rejects-task-augmentation",
            (c := await err_code(x.call_tool_as_task(A.sync, json.loads(A.sync_args)))) == -32601,
            c,
        )
    if A.fail and A.fail in A.required_tools.split(","):
        ck("required-tool-without-task-is-32601", (c := await err_code(s.call_tool(A.fail, {}))) == -32601, c)
    ck("get-unknown-32602", (c := await err_code(x.get_task("no-such-task"))) == -32602, c)
    ck(
        "result-unknown-32602",
        (c := await err_code(x.get_task_result("no-such-task", t.CallToolResult))) == -32602,
        c,
    )
    ck("cancel-unknown-32602", (c := await err_code(x.cancel_task("no-such-task"))) == -32602, c)
    if A.slow:
        cr = await x.call_tool_as_task(A.slow, json.loads(A.slow_args), ttl=60000)
        tk = cr.task
        ck("create-status-working", tk.status == "working", tk.status)
        ck("create-timestamps", tk.createdAt and tk.lastUpdatedAt)
        ck("create-ttl", tk.ttl is None or tk.ttl > 0, tk.ttl)
        g = await x.get_task(tk.taskId)
        ck("immediate-get", g.taskId == tk.taskId)
        lst, cur, ids = None, None, []
        while True:
            lst = await x.list_tasks(cur)
            ids += [k.taskId for k in lst.tasks]
            cur = lst.nextCursor
            if not cur:
                break
        ck("list-contains-live-task", tk.taskId in ids, len(ids))
        t0 = time.time()
        early = asyncio.create_task(x.get_task_result(tk.taskId, t.CallToolResult))
        await asyncio.sleep(0.3)
        ck("result-blocks-until-terminal", not early.done())
        g, seen = await until(s, tk.taskId, {"completed", "failed", "cancelled"})
        ck("slow-completes", g.status == "completed", seen)
        r = await asyncio.wait_for(early, 20)
        ck("result-content", r.content and not r.isError, [c.model_dump() for c in r.content][:1])
        ck("result-related-task-meta", ((r.meta or {}).get(REL) or {}).get("taskId") == tk.taskId, r.meta)
        r2 = await x.get_task_result(tk.taskId, t.CallToolResult)
        ck("result-repeatable", r2.content == r.content)
        ck("cancel-terminal-32602", (c := await err_code(x.cancel_task(tk.taskId))) == -32602, c)
        n = 0
        async for st in x.poll_task(tk.taskId):
            n += 1
            last = st
        ck("poll_task-helper-ends", last.status == "completed", n)
        cr = await x.call_tool_as_task(A.slow, json.loads(A.long_args))
        tid = cr.task.taskId
        c = await x.cancel_task(tid)
        ck("cancel-returns-cancelled", c.status == "cancelled" and c.taskId == tid, c.status)
        g = await x.get_task(tid)
        ck("cancel-sticks", g.status == "cancelled", g.status)
        ck("cancel-twice-32602", (cc := await err_code(x.cancel_task(tid))) == -32602, cc)
    if A.fail:
        cr = await x.call_tool_as_task(A.fail, {})
        g, seen = await until(s, cr.task.taskId, {"completed", "failed", "cancelled"})
        ck("iserror-tool-is-failed", g.status == "failed", seen)  # 2025-11-25: failed includes isError:true
        r = await x.get_task_result(cr.task.taskId, t.CallToolResult)
        ck("iserror-result-kept", r.isError is True and r.content)
    if A.proto:
        cr = await x.call_tool_as_task(A.proto, {})
        g, seen = await until(s, cr.task.taskId, {"completed", "failed", "cancelled"})
        ck("protocol-error-failed", g.status == "failed", seen)
        c = await err_code(x.get_task_result(cr.task.taskId, t.CallToolResult))
        ck("protocol-error-result-is-jsonrpc-error", isinstance(c, int), c)
    for kind, tool, args, want in (
        ("elicit", A.elicit, json.loads(A.elicit_args), 1),
        ("multi", A.multi, {}, 2),
    ):
        if not tool:
            continue
        current["kind"] = kind
        before = len(elicits)
        cr = await x.call_tool_as_task(tool, args)
        tid = cr.task.taskId
        g, seen = await until(s, tid, {"input_required", "completed", "failed", "cancelled"}, 10)
        ck(f"{kind}-input-required", g.status == "input_required", seen)
        r = await asyncio.wait_for(x.get_task_result(tid, t.CallToolResult), 20)
        got = elicits[before:]
        ck(f"{kind}-elicited-{want}", len(got) == want, len(got))
        ck(
            f"{kind}-related-task-on-request",
            all(e["related"] == tid for e in got) and got,
            [e["related"] for e in got],
        )
        ck(f"{kind}-result", r.content and not r.isError, [c.model_dump() for c in r.content][:1])
        g = await x.get_task(tid)
        ck(f"{kind}-completed", g.status == "completed", g.status)


async def run():
    async def go(r, w):
        async with ClientSession(
            r,
            w,
            elicitation_callback=on_elicit,
            client_info=t.Implementation(name="py-legacy-client", version="1"),
        ) as s:
            await scenario(s)

    if A.stdio:
        async with stdio_client(StdioServerParameters(command=A.stdio[0], args=A.stdio[1:])) as (r, w):
            await go(r, w)
    else:
        import httpx

        hdrs = dict(h.split(":", 1) for h in A.header)
        hdrs = {k.strip(): v.strip() for k, v in hdrs.items()}
        async with httpx.AsyncClient(
            headers=hdrs, timeout=httpx.Timeout(30, read=300), follow_redirects=True
        ) as hc:
            async with streamable_http_client(A.url, http_client=hc) as (r, w, _):
                await go(r, w)


crash = None
try:
    asyncio.run(asyncio.wait_for(run(), A.timeout))
except BaseException as e:

    def flat(x):
        return (
            [y for z in x.exceptions for y in flat(z)]
            if isinstance(x, BaseExceptionGroup)
            else [f"{type(x).__name__}: {x}"]
        )

    crash = flat(e)
allow = {a for a in A.allow.split(",") if a}
bad = [c["id"] for c in checks if not c["ok"] and c["id"] not in allow]
stale = [c["id"] for c in checks if c["ok"] and c["id"] in allow]
out = {
    "client": "mcp 1.30 (python, legacy experimental tasks)",
    "target": A.url or A.stdio,
    "passed": sum(c["ok"] for c in checks),
    "failed": len([c for c in checks if not c["ok"]]),
    "unexpected": bad,
    "allowed": sorted(allow & {c["id"] for c in checks if not c["ok"]}),
    "stale_allow": stale,
    "crash": crash,
    "checks": checks,
}
print(json.dumps(out, indent=1, default=str))
sys.exit(1 if bad or stale or crash or not checks else 0)
