#!/usr/bin/env node
// A session as any program has it, on a version of the TypeScript SDK that its users have not renewed for a while.
//   node ts-old-client.mjs PACKAGE PLAN URL | PACKAGE PLAN --stdio CMD [ARG...]
// PACKAGE is a folder of node_modules. PLAN is JSON: {"now": CALL, "slow": CALL, "fail": CALL}, each [TOOL, ARGUMENTS, TEXT IN THE RESULT].
// Prints one JSON object; exit 0 iff all checks pass.
import fs from "node:fs";
import os from "node:os";
import { pathToFileURL } from "node:url";
// The packages live in the folder that ../setup filled.
const peers = process.env.TASKGATE_PEERS ?? `${os.homedir()}/.cache/taskgate-peers`;
const [name, plan, first, ...rest] = process.argv.slice(2);
const folder = `${peers}/node/node_modules/${name}`;
const base = pathToFileURL(`${folder}/dist/esm/`);
const { Client } = await import(new URL("client/index.js", base));
const { StreamableHTTPClientTransport } = await import(new URL("client/streamableHttp.js", base));
const { StdioClientTransport } = await import(new URL("client/stdio.js", base));
const sdk = JSON.parse(fs.readFileSync(`${folder}/package.json`)).version;

const checks = [];
const check = (id, ok, detail) => checks.push({ id, ok: !!ok, ...(detail === undefined ? {} : { detail }) });
const { now, slow, fail } = JSON.parse(plan);
const text = (result) => result?.content?.map((block) => block.text ?? "").join("");
const transport =
  first === "--stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: "ignore" })
    : new StreamableHTTPClientTransport(new URL(first));
const client = new Client({ name: "ts-old-client", version: sdk }, { capabilities: {} });
const errors = [];
client.onerror = (error) => errors.push(String(error));
let initialized, listed;
const call = ([tool, args], options) => client.callTool({ name: tool, arguments: args }, undefined, options);
try {
  const connecting = client.connect(transport);
  // Whatever the SDK makes of it, this is what came.
  const take = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.result?.protocolVersion) initialized = message.result;
    if (message.result?.tools) listed = message.result;
    return take?.(message, extra);
  };
  await connecting;
  const version = initialized?.protocolVersion ?? transport.protocolVersion;
  check("version", /^20\d\d-\d\d-\d\d$/.test(version ?? ""), version);
  const capabilities = client.getServerCapabilities();
  const knows = version >= "2025-11-25";
  check("capabilities", capabilities.tools && knows === !!capabilities.tasks, capabilities);
  const { tools } = await client.listTools();
  check("tools", [now, slow, fail].every(([tool]) => tools.some((one) => one.name === tool)), tools.map((one) => one.name));
  check("no execution", knows || !(listed?.tools ?? tools).some((one) => "execution" in one), listed?.tools?.length);
  const done = await call(now);
  check("call", !done.isError && text(done).includes(now[2]), text(done));
  const progress = [];
  const long = await call(slow, { onprogress: (one) => progress.push(one.progress), timeout: 60_000 });
  check("slow call", !long.isError && text(long).includes(slow[2]), text(long));
  check("progress", progress.length > 1 && progress.every((one, at) => !at || one > progress[at - 1]), progress);
  const failed = await call(fail);
  check("error", failed.isError && text(failed).includes(fail[2]), text(failed));
  const unknown = await call(["no_such_tool", {}]).then(
    (result) => ({ result }),
    (error) => ({ code: error.code }),
  );
  check("unknown tool", unknown.code === -32602 || unknown.result?.isError, unknown);
  const again = await call(now);
  check("call again", text(again).includes(now[2]), text(again));
  await client.ping();
} catch (error) {
  check("session", false, String(error?.stack ?? error));
}
await client.close();
// From 1.32 on it takes notifications in hand after answers that came later, with any server.
const harmless = /abort|progress notification for an unknown token/i;
check("errors", errors.every((one) => harmless.test(one)), errors);
const failed = checks.filter((one) => !one.ok);
const said = { client: `TypeScript SDK ${sdk}`, version: initialized?.protocolVersion };
console.log(
  JSON.stringify({ ...said, passed: checks.length - failed.length, failed: failed.length, unexpected: failed, crash: null }),
);
process.exit(failed.length ? 1 : 0);
