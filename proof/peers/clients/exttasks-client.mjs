#!/usr/bin/env node
// Third-party client check with @modelcontextprotocol/ext-tasks 0.2.2 + @modelcontextprotocol/client 2.4.0.
//   node exttasks-client.mjs --url URL [--era modern|legacy] [tool options]
//   node exttasks-client.mjs --era E [tool options] --stdio CMD [ARG...]
// Restart drill (durability): --phase create --ref FILE  (creates, hands off the reference, exits 0)
//                             --phase resume --ref FILE  (new process: resumes the reference and settles)
// Given calls: --phase calls --calls '[{"id", "tool", "args", "plain"?, "answers"?: {MESSAGE: CONTENT}, "cancelWhen"?: {"file", "line"}}]'
//   Each is made as a task unless it is plain, and its outcome is the detail of the check with its id.
// Prints one JSON object; exit 0 iff all checks pass (minus --allow id,id) and none of the allowed ones passes.
import fs from "node:fs";
import os from "node:os";
import { pathToFileURL } from "node:url";
// The packages live in the folder that ../setup filled.
const peers = process.env.TASKGATE_PEERS ?? `${os.homedir()}/.cache/taskgate-peers`;
const base = pathToFileURL(`${peers}/node/node_modules/@modelcontextprotocol/`);
const { Client, StreamableHTTPClientTransport } = await import(new URL("client/dist/index.mjs", base));
const { StdioClientTransport } = await import(new URL("client/dist/stdio.mjs", base));
const X = await import(new URL("ext-tasks/dist/client/index.js", base));

const O = {
  era: "modern",
  sync: "greet",
  "sync-args": '{"name":"World"}',
  slow: "slow_compute",
  "slow-args": '{"seconds":2,"label":"x"}',
  "long-args": '{"seconds":60,"label":"long"}',
  fail: "failing_job",
  proto: "protocol_error_job",
  elicit: "confirm_delete",
  "elicit-args": '{"filename":"a.txt"}',
  "elicit-answer": '{"confirm":true}',
  multi: "multi_input",
  "multi-answer": '{"value":"v"}',
  compose: "test_tool_with_task",
  "compose-answer": '{"name":"Alice"}',
  "compose-want": "Alice",
  phase: "all",
  ref: "task.ref",
  allow: "",
  timeout: "60",
  header: "",
  retention: "",
  calls: "[]",
};
let stdio;
const a = process.argv.slice(2);
while (a.length) {
  const k = a.shift().replace(/^--/, "");
  if (k === "stdio") {
    stdio = a.splice(0);
    break;
  }
  if (!(k in O) && k !== "url") {
    console.error("unknown option --" + k);
    process.exit(2);
  }
  O[k] = a.shift();
}
const REQ = () => ({
  task: { preference: "require", ...(O.retention ? { retentionMs: Number(O.retention) } : {}) },
});
const J = JSON.parse,
  checks = [];
const ck = (id, ok, detail) => {
  checks.push({ id, ok: !!ok, ...(detail === undefined ? {} : { detail }) });
  return !!ok;
};
let answer = J(O["elicit-answer"]),
  answers = {}; // by the question's message, before `answer`
const elicited = [];
const clientInfo = { name: "exttasks-client", version: "1" };
const capabilities =
  O.era === "modern"
    ? { elicitation: { form: {} }, extensions: { "io.modelcontextprotocol/tasks": {} } }
    : { elicitation: { form: {} } };

async function open() {
  const client = new Client(clientInfo, {
    capabilities,
    versionNegotiation: { mode: O.era === "modern" ? { pin: "2026-07-28" } : "legacy" },
  });
  const transport = stdio
    ? new StdioClientTransport({ command: stdio[0], args: stdio.slice(1), stderr: "ignore" })
    : new StreamableHTTPClientTransport(
        new URL(O.url),
        O.header
          ? {
              requestInit: {
                headers: Object.fromEntries(O.header.split("\n").map((h) => h.split(/:\s*/, 2))),
              },
            }
          : {},
      );
  await client.connect(transport);
  // host-owned raw dispatch (what ext-tasks asks of its host): same transport, string ids, SDK never sees the answers
  const pend = new Map();
  let n = 0;
  const sdk = transport.onmessage;
  transport.onmessage = (m, e) => {
    const p = typeof m.id === "string" && !m.method && pend.get(m.id);
    if (!p) return sdk?.(m, e);
    pend.delete(m.id);
    p.ok(m.error ? { kind: "error", error: m.error } : { kind: "result", result: m.result });
  };
  const rawDispatch = (req, opt = {}) =>
    new Promise((ok, bad) => {
      const id = `raw-${++n}`;
      const t = setTimeout(() => {
        pend.delete(id);
        bad(new X.DispatchError(`timeout ${req.method}`));
      }, 30000);
      const done = (f) => (v) => {
        clearTimeout(t);
        f(v);
      };
      pend.set(id, { ok: done(ok) });
      opt.signal?.addEventListener(
        "abort",
        () => {
          pend.delete(id);
          clearTimeout(t);
          bad(opt.signal.reason);
        },
        { once: true },
      );
      transport
        .send(
          { jsonrpc: "2.0", id, ...req },
          {
            ...(opt.context?.headers ? { headers: opt.context.headers } : {}),
            ...(opt.signal ? { requestSignal: opt.signal } : {}),
          },
        )
        .catch((e) => {
          pend.delete(id);
          const m = /\{"jsonrpc".*\}/s.exec(e?.message ?? "");
          let j;
          try {
            j = JSON.parse(m?.[0]);
          } catch {} // 4xx with a JSON-RPC error body surfaces as SdkHttpError
          j?.error ? done(ok)({ kind: "error", error: j.error }) : done(bad)(e);
        });
    });
  const errors = [];
  const session = X.createTaskSessionFromClient(client, {
    endpointId: `taskgate:${O.url ?? stdio.join(" ")}`,
    onError: (e) => errors.push(String(e)),
    ...(O.era === "modern"
      ? {
          rawDispatch,
          v2RequestFraming: { protocolVersion: "2026-07-28", clientInfo, clientCapabilities: capabilities },
        }
      : {}),
    onInputRequest: X.createApplicationInputHandler({
      elicitation: (r, c) => {
        elicited.push({ params: r.params.message, scope: c.scope, delivery: c.delivery, taskId: c.taskId });
        return { action: "accept", content: answers[r.params.message] ?? answer };
      },
      sampling: () => {
        throw new Error("no sampling");
      },
      roots: () => ({ roots: [] }),
    }),
  });
  return {
    client,
    session,
    errors,
    rawDispatch,
    close: async () => {
      await session.close().catch(() => {});
      await client.close().catch(() => {});
    },
  };
}
const settle = (ex, ms = 25000) => {
  const seen = [];
  let t;
  return Promise.race([
    ex
      .settle({
        close: false,
        onEvent: (e) => {
          const v = X.taskViewFromExecutionEvent(e);
          if (v && seen.at(-1) !== v.status) seen.push(v.status);
        },
      })
      .then((s) => ({ ...s, seen })),
    new Promise((_, r) => {
      t = setTimeout(() => r(new Error(`settle timeout; saw ${seen.join(",")}`)), ms);
    }),
  ]).finally(() => clearTimeout(t));
};
const txt = (r) => r?.content?.map((c) => c.text ?? c.type).join("|");
const guard = async (id, f) => {
  try {
    await f();
  } catch (e) {
    ck(
      `${id}:no-exception`,
      false,
      `${e?.name}: ${e?.message}${e?.cause ? " <- " + e.cause : ""}`.slice(0, 400),
    );
  }
};

async function all() {
  const { client, session, errors, rawDispatch, close } = await open();
  ck("era", client.getProtocolEra() === O.era, client.getProtocolEra());
  ck("capabilities-execution", session.capabilities.execution, session.capabilities);
  if (O.era === "legacy")
    ck(
      "capabilities-inventory-server-list",
      session.capabilities.inventory === "server-list",
      session.capabilities.inventory,
    );
  if (O.sync)
    await guard("sync", async () => {
      const ex = await session.callTool(O.sync, J(O["sync-args"]));
      ck("sync-immediate", ex.kind === "immediate", ex.kind);
      const s = await settle(ex);
      ck("sync-result", s.outcome.status === "completed", txt(s.outcome.result));
    });
  if (O.slow) {
    await guard("slow", async () => {
      const ex = await session.callTool(O.slow, J(O["slow-args"]), REQ());
      if (!ck("slow-is-task", ex.kind === "task", ex.kind)) return;
      const snap = await session.task(ex.handle.taskId).snapshot();
      ck("slow-snapshot", snap.taskId === ex.handle.taskId && !!snap.createdAt, {
        status: snap.status,
        ttl: snap.retentionMs,
        poll: snap.suggestedPollIntervalMs,
      });
      if (O.era === "legacy") {
        let cur,
          ids = [];
        do {
          const p = await session.listTasks(cur);
          ids.push(...p.tasks.map((t) => t.taskId));
          cur = p.nextCursor;
        } while (cur);
        ck("slow-listed", ids.includes(ex.handle.taskId), ids.length);
      }
      const s = await settle(ex);
      ck("slow-completed", s.outcome.status === "completed", { text: txt(s.outcome.result), seen: s.seen });
      const again = await session.task(ex.handle.taskId).result();
      ck("slow-result-again", again.status === "completed" && txt(again.result) === txt(s.outcome.result));
    });
    await guard("cancel", async () => {
      const ex = await session.callTool(O.slow, J(O["long-args"]), REQ());
      await ex.cancel();
      const s = await settle(ex);
      ck("cancel-outcome-cancelled", s.outcome.status === "cancelled", {
        st: s.outcome.status,
        seen: s.seen,
      });
      const snap = await session.task(ex.handle.taskId).snapshot();
      ck("cancel-snapshot-cancelled", snap.status === "cancelled", snap.status);
    });
  }
  if (O.fail)
    await guard("fail", async () => {
      const ex = await session.callTool(O.fail, {}, REQ());
      const s = await settle(ex);
      if (O.era === "modern")
        ck(
          "fail-completed-isError",
          s.outcome.status === "completed" && s.outcome.result.isError === true,
          s.outcome.status,
        );
      else {
        ck("fail-is-failed", s.outcome.status === "failed", s.outcome.status);
        ck(
          "fail-has-statusMessage",
          s.outcome.error?.message && s.outcome.error.message !== "Task failed",
          s.outcome.error?.message,
        );
      }
    });
  if (O.proto)
    await guard("proto", async () => {
      const ex = await session.callTool(O.proto, {}, REQ());
      const s = await settle(ex);
      ck("proto-failed", s.outcome.status === "failed", s.outcome.status);
      if (O.era === "modern")
        ck("proto-code", typeof s.outcome.error?.code === "number", s.outcome.error?.code);
    });
  for (const [id, tool, args, ans, want] of [
    ["elicit", O.elicit, J(O["elicit-args"]), J(O["elicit-answer"]), 1],
    ["multi", O.multi, {}, J(O["multi-answer"]), 2],
  ])
    if (tool)
      await guard(id, async () => {
        answer = ans;
        const b = elicited.length;
        const ex = await session.callTool(tool, args, REQ());
        const s = await settle(ex);
        const got = elicited.slice(b);
        ck(`${id}-completed`, s.outcome.status === "completed" && !s.outcome.result.isError, {
          text: txt(s.outcome.result),
          seen: s.seen,
        });
        ck(`${id}-elicited-${want}`, got.length === want, got);
        ck(
          `${id}-scope-task`,
          got.every((g) => g.scope === "task" && g.taskId === ex.handle.taskId),
          got,
        );
      });
  if (O.compose && O.era === "modern")
    await guard("compose", async () => {
      answer = J(O["compose-answer"]);
      const b = elicited.length;
      const ex = await session.callTool(O.compose, {});
      ck("compose-is-task", ex.kind === "task", ex.kind);
      const s = await settle(ex);
      ck("compose-result", txt(s.outcome.result)?.includes(O["compose-want"]), txt(s.outcome.result));
      ck(
        "compose-request-scope",
        elicited.slice(b).every((g) => g.scope === "request") && elicited.length === b + 1,
        elicited.slice(b),
      );
    });
  await guard("unknown", async () => {
    let e;
    try {
      await session.task("no-such-task").snapshot();
    } catch (x) {
      e = x;
    }
    ck("unknown-task-32602", e?.code === -32602, e?.code ?? String(e));
  });
  if (O.era === "modern")
    for (const m of ["tasks/result", "tasks/list"])
      await guard(m, async () => {
        const r = await rawDispatch({
          method: m,
          params: {
            ...(m === "tasks/result" ? { taskId: "x" } : {}),
            _meta: {
              "io.modelcontextprotocol/protocolVersion": "2026-07-28",
              "io.modelcontextprotocol/clientInfo": clientInfo,
              "io.modelcontextprotocol/clientCapabilities": capabilities,
            },
          },
        });
        ck(`${m}-32601`, r.kind === "error" && r.error.code === -32601, r);
      });
  ck("no-background-errors", errors.length === 0, errors);
  await close();
}
// A text of a single letter is told as letter*count.
const brief = (t) => (t?.length > 100 && t === t[0].repeat(t.length) ? `${t[0]}*${t.length}` : t);
const told = (status, result, error) =>
  [status, result?.isError && "isError", brief(txt(result)), error?.code, error?.message]
    .filter((word) => word !== undefined && word !== false)
    .join(" ");
async function calls() {
  const { session, errors, close } = await open();
  for (const c of J(O.calls))
    await guard(c.id, async () => {
      answers = c.answers ?? {};
      const ex = await session.callTool(c.tool, c.args ?? {}, c.plain ? undefined : REQ());
      if (c.cancelWhen) {
        const { file, line } = c.cancelWhen;
        while (!(fs.existsSync(file) && fs.readFileSync(file, "utf8").split("\n").includes(line)))
          await new Promise((r) => setTimeout(r, 50));
        await ex.cancel();
      }
      const { status, result, error } = (await settle(ex)).outcome;
      ck(c.id, true, told(status, result, error));
    });
  ck("no-background-errors", errors.length === 0, errors);
  await close();
}
async function create() {
  const { session, close } = await open();
  const ex = await session.callTool(O.slow, J(O["slow-args"]), REQ());
  await ex.handoff((r) => {
    fs.writeFileSync(O.ref, JSON.stringify(r));
  });
  ck("handoff", true, J(fs.readFileSync(O.ref)));
  await close();
}
async function resume() {
  const { session, close } = await open();
  await guard("resume", async () => {
    const ex = await session.resumeTask(J(fs.readFileSync(O.ref)));
    const s = await settle(ex, 90000);
    const { status, result, error } = s.outcome;
    ck("resume-completed", status === "completed", told(status, result, error));
  });
  await close();
}

let crash;
const killer = setTimeout(
  () => {
    crash = "overall timeout";
    finish();
  },
  Number(O.timeout) * 1000,
);
function finish() {
  clearTimeout(killer);
  const allow = new Set(O.allow.split(",").filter(Boolean));
  const bad = checks.filter((c) => !c.ok && !allow.has(c.id)).map((c) => c.id),
    stale = checks.filter((c) => c.ok && allow.has(c.id)).map((c) => c.id);
  console.log(
    JSON.stringify(
      {
        client: "ext-tasks 0.2.2 + client 2.4.0",
        era: O.era,
        target: O.url ?? stdio,
        passed: checks.filter((c) => c.ok).length,
        failed: checks.filter((c) => !c.ok).length,
        unexpected: bad,
        stale_allow: stale,
        crash,
        checks,
      },
      null,
      1,
    ),
  );
  process.exit(bad.length || stale.length || crash || !checks.length ? 1 : 0);
}
try {
  await { all, calls, create, resume }[O.phase]();
} catch (e) {
  crash = `${e?.name}: ${e?.message}${e?.cause ? " <- " + e.cause : ""}`;
}
finish();
