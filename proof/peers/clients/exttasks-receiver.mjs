#!/usr/bin/env node
// A client that hosts tasks for what it is asked (2025-11-25): the receiver of @modelcontextprotocol/ext-tasks 0.2.2 on
// @modelcontextprotocol/client 2.4.0. It answers each question 300 ms after it has made a task of it.
//   node exttasks-receiver.mjs URL | --stdio CMD [ARG...]
// Prints one JSON object; exit 0 iff all checks pass.
import os from "node:os";
import { pathToFileURL } from "node:url";
// The packages live in the folder that ../setup filled.
const peers = process.env.TASKGATE_PEERS ?? `${os.homedir()}/.cache/taskgate-peers`;
const base = pathToFileURL(`${peers}/node/node_modules/@modelcontextprotocol/`);
const { Client, StreamableHTTPClientTransport } = await import(new URL("client/dist/index.mjs", base));
const { StdioClientTransport } = await import(new URL("client/dist/stdio.mjs", base));
const { bindTaskReceiver } = await import(new URL("ext-tasks/dist/receiver/index.js", base));

const [first, ...rest] = process.argv.slice(2);
const checks = [];
const check = (id, ok, detail) => checks.push({ id, ok: !!ok, ...(detail === undefined ? {} : { detail }) });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const hosts = { sampling: { createMessage: {} }, elicitation: { create: {} } };
const capabilities = { sampling: {}, elicitation: { form: {} }, tasks: { list: {}, cancel: {}, requests: hosts } };
const client = new Client(
  { name: "exttasks-receiver", version: "1" },
  { capabilities, versionNegotiation: { mode: "legacy" } },
);
const made = [];
const errors = [];
const hosted = (kind, answer) => async (request, context) => {
  made.push({ kind, task: context.taskId });
  await pause(300);
  return answer(request);
};
const receiver = bindTaskReceiver(client, {
  methods: { "sampling/createMessage": true, "elicitation/create": true },
  pollIntervalMs: 200,
  sampling: hosted("sampling", () => ({
    role: "assistant",
    model: "m",
    content: { type: "text", text: "thought over" },
  })),
  elicitation: hosted("elicitation", () => ({
    action: "accept",
    content: { username: "ada", email: "ada@example.com" },
  })),
  onError: (error, context) => errors.push(`${context.method}: ${error}`),
});
check("capabilities", JSON.stringify(receiver.capabilities) === JSON.stringify(capabilities.tasks), receiver.capabilities);
const transport =
  first === "--stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), stderr: "ignore" })
    : new StreamableHTTPClientTransport(new URL(first));
// What is asked, as it comes: whether a question is to be a task stands in its params.
await client.connect(transport);
const asked = [];
const sdk = transport.onmessage;
transport.onmessage = (message, extra) => {
  if (message.method && message.id !== undefined) asked.push({ method: message.method, task: !!message.params?.task });
  return sdk?.(message, extra);
};
const text = (result) => result?.content?.map((block) => block.text ?? "").join("");
try {
  const sampled = await client.callTool({ name: "test_sampling", arguments: { prompt: "think" } });
  check("sampling", text(sampled)?.includes("thought over") && !sampled.isError, text(sampled));
  const filled = await client.callTool({ name: "test_elicitation", arguments: { message: "who?" } });
  check("elicitation", text(filled)?.includes("ada") && !filled.isError, text(filled));
} catch (error) {
  check("calls", false, String(error?.stack ?? error));
}
check("tasks", made.length === 2 && new Set(made.map((one) => one.task)).size === 2, made);
const of = (method) => asked.filter((one) => one.method === method).length;
check("as tasks", asked.every((one) => one.task || one.method.startsWith("tasks/")), asked);
check("polled", of("tasks/get") >= 2 && of("tasks/result") === 2, asked.map((one) => one.method));
check("errors", errors.length === 0, errors);
receiver.close();
await client.close();
const failed = checks.filter((one) => !one.ok);
const passed = checks.length - failed.length;
console.log(
  JSON.stringify({ client: "ext-tasks receiver", passed, failed: failed.length, unexpected: failed, crash: null }),
);
process.exit(failed.length ? 1 : 0);
