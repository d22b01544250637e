#!/usr/bin/env node
// Checks values against the schemas of the tasks extension of 2026-07-28, which @modelcontextprotocol/ext-tasks
// publishes as zod schemas. One JSON object a line in FILE: where, version, schema, value.
// Prints one JSON object; exit 0 iff everything fits.
import fs from "node:fs";
import os from "node:os";
import { pathToFileURL } from "node:url";
// The packages live in the folder that ../setup filled.
const peers = process.env.TASKGATE_PEERS ?? `${os.homedir()}/.cache/taskgate-peers`;
const base = pathToFileURL(`${peers}/node/node_modules/@modelcontextprotocol/ext-tasks/`);
const schemas = await import(new URL("dist/core/v2/index.js", base));
const { version } = JSON.parse(fs.readFileSync(new URL("package.json", base), "utf8"));

let passed = 0;
const wrong = [];
for (const line of fs.readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean)) {
  const item = JSON.parse(line);
  const read = schemas[item.schema].safeParse(item.value);
  if (read.success) passed++;
  else wrong.push({ ...item, errors: read.error.issues });
}
const report = { schemas: `ext-tasks ${version}`, passed, failed: wrong.length, unexpected: wrong, crash: null };
console.log(JSON.stringify(report));
process.exit(wrong.length ? 1 : 0);
