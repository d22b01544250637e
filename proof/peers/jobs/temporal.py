"""A Temporal dev server and a worker with one workflow. Says on stderr where its HTTP API is, and runs until it is killed."""

import asyncio
import ctypes
import json
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from datetime import timedelta
from pathlib import Path

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@workflow.defn(name="Report")
class Report:
    def __init__(self):
        self.says = {"message": "begun"}
        self.answers = {}

    @workflow.run
    async def run(self, arguments):
        if "fail" in arguments:
            raise ApplicationError(arguments["fail"], non_retryable=True)
        for page in range(1, 4):
            self.says = {"message": f"page {page}", "progress": page, "total": 3}
            await workflow.sleep(timedelta(seconds=arguments.get("pause", 0.5)))
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        self.says["question"] = {"key": "title", "message": "Which title?", "schema": schema}
        await workflow.wait_condition(lambda: "title" in self.answers)
        del self.says["question"]
        answer = self.answers["title"]
        return {"topic": arguments["topic"], "action": answer["action"], "title": answer["content"]["name"]}

    @workflow.signal(name="answer")
    def answer(self, answer):
        self.answers[answer["question"]] = answer

    @workflow.query(name="status")
    def status(self):
        return self.says


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


async def main():
    grpc, http = free_port(), free_port()
    program = Path(sysconfig.get_path("scripts")) / "temporal"
    ports = ["--port", str(grpc), "--http-port", str(http), "--metrics-port", str(free_port())]
    command = [program, "server", "start-dev", "--headless", "--log-level", "error", *ports]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=dies_with_us)
    base = f"http://127.0.0.1:{http}/api/v1/namespaces/default"
    while True:
        try:
            with urllib.request.urlopen(base, timeout=5) as answer:
                json.load(answer)
                break
        except OSError:
            time.sleep(0.1)
    client = await Client.connect(f"127.0.0.1:{grpc}")
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="reports", workflows=[Report], workflow_runner=runner):
        print(f"serving http://127.0.0.1:{http}/", file=sys.stderr, flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
