"""A company's release pipeline, small but with everything that counts: it is asked over HTTP, works by itself, waits for a
person, can be stopped, and knows a request that is sent twice.

    python3 pipeline.py PORT [SECONDS A STAGE]
"""

import http.server
import json
import sys
import threading
import time

STAGES = ["build", "tests", "approval", "rollout"]
FORM = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "by": {"type": "string"}},
    "required": ["approved"],
}


class Release:
    def __init__(self, number, asked):
        self.number = number
        self.asked = asked
        self.state = "RUNNING"
        self.stage = 0
        self.reason = None
        self.by = None

    def seen(self):
        about = f"{self.asked['service']} {self.asked['version']}"
        seen = {
            "id": str(self.number),
            "state": self.state,
            "stage": f"{STAGES[min(self.stage, len(STAGES) - 1)]} of {about}",
            "done": self.stage,
            "stages": len(STAGES),
            "reason": self.reason,
        }
        if self.state == "WAITING_FOR_APPROVAL":
            text = f"May {about} go to production?"
            seen["approval"] = {"id": f"approval-{self.number}", "text": text, "form": FORM}
        if self.state == "RELEASED":
            seen["released"] = {**self.asked, "approvedBy": self.by}
        return seen


class Pipeline(http.server.BaseHTTPRequestHandler):
    releases = []
    keys = {}
    lock = threading.Lock()
    pause = 0.2

    def do_GET(self):
        with self.lock:
            release = self.find(self.path.split("/"))
            self.answer(200, release.seen()) if release else self.answer(404, {"error": "no such release"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        words = self.path.split("/")
        with self.lock:
            if words == ["", "releases"]:
                return self.start(json.loads(body))
            release = self.find(words)
            if release is None:
                return self.answer(404, {"error": "no such release"})
            if words[3:] == ["stop"]:
                return self.stop(release)
            if words[3:] == ["approval"]:
                return self.approve(release, json.loads(body))
        self.answer(404, {"error": "no such request"})

    def start(self, asked):
        key = self.headers.get("Idempotency-Key")
        release = self.keys.get(key)
        if release is None:
            release = Release(len(self.releases) + 1, asked)
            self.releases.append(release)
            self.keys[key] = release
            threading.Thread(target=self.work, args=(release,), daemon=True).start()
        self.answer(201, release.seen())

    def stop(self, release):
        if release.state not in ("RUNNING", "WAITING_FOR_APPROVAL"):
            return self.answer(409, release.seen())
        release.state = "STOPPED"
        self.answer(200, release.seen())

    def approve(self, release, said):
        if release.state == "WAITING_FOR_APPROVAL" and said["approval"] == f"approval-{release.number}":
            form = said.get("form") or {}
            if said["action"] == "accept" and form.get("approved"):
                release.state, release.by = "RUNNING", form.get("by")
            else:
                release.state, release.reason = "REJECTED", "the approval was refused"
        self.answer(200, release.seen())

    @classmethod
    def work(cls, release):
        while release.stage < len(STAGES):
            time.sleep(cls.pause)
            with cls.lock:
                if release.state == "RUNNING":
                    if STAGES[release.stage] == "approval" and release.by is None:
                        release.state = "WAITING_FOR_APPROVAL"
                    else:
                        release.stage += 1
                elif release.state != "WAITING_FOR_APPROVAL":
                    return
        with cls.lock:
            release.state = "RELEASED"

    def find(self, words):
        if len(words) < 3 or words[1] != "releases" or not words[2].isdigit():
            return None
        number = int(words[2])
        return self.releases[number - 1] if 0 < number <= len(self.releases) else None

    def answer(self, code, body):
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Pipeline.pause = float(sys.argv[2])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Pipeline)
    print(f"http://127.0.0.1:{server.server_port}/", file=sys.stderr, flush=True)
    server.serve_forever()
