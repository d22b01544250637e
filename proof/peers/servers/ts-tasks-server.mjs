#!/usr/bin/env node
// A server nobody here wrote the inside of: the TypeScript SDK 1.x with its tasks of 2025-11-25, which it keeps in memory.
//   ts-tasks-server.mjs PORT|stdio FOLDER
// The tools are those that ../clients call. Every `held` leaves a line in FOLDER/begun, works until FOLDER/open exists, and leaves
// one in FOLDER/stopped if it is cancelled before.
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import { pathToFileURL } from "node:url";
const peers = process.env.TASKGATE_PEERS ?? `${os.homedir()}/.cache/taskgate-peers`;
const packages = pathToFileURL(`${peers}/node/node_modules/`);
const sdk = (file) => import(new URL(`@modelcontextprotocol/sdk/dist/esm/${file}`, packages));
const { McpServer } = await sdk("server/mcp.js");
const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp.js");
const { StdioServerTransport } = await sdk("server/stdio.js");
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = await sdk("experimental/tasks/stores/in-memory.js");
const { ElicitResultSchema } = await sdk("types.js");
const { z } = await import(new URL("zod/index.js", packages));

const [port, folder] = process.argv.slice(2);
const note = (file, line) => fs.appendFileSync(`${folder}/${file}`, `${line}\n`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const text = (text, isError = false) => ({ content: [{ type: "text", text }], isError });
// One for all sessions: the store itself says whose a task is.
const [taskStore, taskMessageQueue] = [new InMemoryTaskStore(), new InMemoryTaskMessageQueue()];

function make() {
  const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
  const server = new McpServer(
    { name: "ts-tasks", version: "1" },
    { capabilities: { tasks }, taskStore, taskMessageQueue },
  );
  server.registerTool("greet", { inputSchema: { name: z.string() } }, async ({ name }) =>
    text(`Hello, ${name}!`),
  );
  const tool = (name, taskSupport, inputSchema, work) =>
    server.experimental.tasks.registerToolTask(
      name,
      { description: name, inputSchema, execution: { taskSupport } },
      {
        createTask: async (given, extra) => {
          const ttl = extra.taskRequestedTtl ?? 300000;
          const task = await extra.taskStore.createTask({ ttl, pollInterval: 100 });
          const relatedTask = { taskId: task.taskId };
          const ask = (message, name, type) => {
            const requestedSchema = { type: "object", properties: { [name]: { type } }, required: [name] };
            const request = { method: "elicitation/create", params: { message, requestedSchema } };
            return extra.sendRequest(request, ElicitResultSchema, { relatedTask });
          };
          const isCancelled = async () =>
            (await extra.taskStore.getTask(task.taskId))?.status === "cancelled";
          work(given, { ask, isCancelled })
            .then((result) =>
              extra.taskStore.storeTaskResult(task.taskId, result.isError ? "failed" : "completed", result),
            )
            .catch((error) => extra.taskStore.updateTaskStatus(task.taskId, "failed", error.message))
            // It was cancelled meanwhile.
            .catch(() => {});
          return { task };
        },
        getTask: async (_, extra) => extra.taskStore.getTask(extra.taskId),
        getTaskResult: async (_, extra) => extra.taskStore.getTaskResult(extra.taskId),
      },
    );
  const slow = { seconds: z.number(), label: z.string() };
  tool("slow_compute", "optional", slow, async ({ seconds, label }, { isCancelled }) => {
    for (const end = Date.now() + seconds * 1000; Date.now() < end && !(await isCancelled()); ) await sleep(50);
    return text(`${label} took ${seconds}s`);
  });
  tool("held", "optional", { label: z.string() }, async ({ label }, { isCancelled }) => {
    note("begun", label);
    while (!fs.existsSync(`${folder}/open`)) {
      if (await isCancelled()) {
        note("stopped", label);
        break;
      }
      await sleep(50);
    }
    return text(`${label} is done`);
  });
  tool("large", "optional", { size: z.number() }, async ({ size }) => text("é".repeat(size)));
  tool("failing_job", "required", {}, async () => text("it did not work", true));
  tool("protocol_error_job", "optional", {}, async () => {
    throw new Error("it went wrong");
  });
  tool("confirm_delete", "required", { filename: z.string() }, async ({ filename }, { ask }) => {
    const { action, content } = await ask(`Delete ${filename}?`, "confirm", "boolean");
    return text(`${filename}: ${action} ${content?.confirm}`);
  });
  tool("multi_input", "required", {}, async (_, { ask }) => {
    const answers = await Promise.all(["one", "two"].map((key) => ask(key, "value", "string")));
    return text(answers.map(({ content }) => content?.value).join(" "));
  });
  return server;
}

if (port === "stdio") {
  await make().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const serve = async (request, response) => {
    const chunks = await Array.fromAsync(request);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (!session && body?.method === "initialize") {
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (id) => sessions.set(id, session),
      });
      await make().connect(session);
    }
    if (session) await session.handleRequest(request, response, body);
    else response.writeHead(404).end();
  };
  http
    .createServer((request, response) => serve(request, response).catch(() => response.destroy()))
    .listen(Number(port), "127.0.0.1", () => console.error(`peer listens on ${port}`));
}
