#!/usr/bin/env python3
"""A server nobody here wrote the inside of that wants tokens: the Python SDK as a resource server, and beside it an authorization
server of the smallest kind.
  guarded-server.py PORT FOLDER

A token is good for the resource and the scopes it was asked for with, and until FOLDER/revoked exists. Every call, token and
metadata document leaves a line in FOLDER/begun; the issuer stands in FOLDER/issuer."""

import base64
import http.server
import json
import pathlib
import secrets
import sys
import threading
import urllib.parse

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import FastMCP

port, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
tokens: dict[str, AccessToken] = {}


def begin(label: str) -> None:
    with open(folder / "begun", "a") as begun:
        begun.write(label + "\n")


class Issuer(http.server.BaseHTTPRequestHandler):
    def answer(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        if self.path != "/.well-known/oauth-authorization-server":
            return self.answer(404, {})
        begin("metadata")
        self.answer(200, {"issuer": issuer, "token_endpoint": f"{issuer}/token"})

    def do_POST(self) -> None:
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        known = "Basic " + base64.b64encode(b"me:geheim").decode()
        if self.headers["Authorization"] != known:
            return self.answer(401, {"error": "invalid_client"})
        begin("token")
        token = secrets.token_hex(8)
        scopes = form.get("scope", "").split()
        tokens[token] = AccessToken(token=token, client_id="me", scopes=scopes, resource=form.get("resource"))
        self.answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def log_message(self, *_: object) -> None:
        pass


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        revoked = folder / "revoked"
        if revoked.exists():
            revoked.unlink()
            tokens.clear()
        return tokens.get(token)


authority = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
issuer = f"http://127.0.0.1:{authority.server_port}"
threading.Thread(target=authority.serve_forever, daemon=True).start()
(folder / "issuer").write_text(issuer)
server = FastMCP(
    "guarded",
    host="127.0.0.1",
    port=port,
    log_level="WARNING",
    token_verifier=Verifier(),
    auth=AuthSettings(
        issuer_url=issuer,
        resource_server_url=f"http://127.0.0.1:{port}/mcp",
        required_scopes=["use"],
        validate_token_resource=True,
    ),
)


@server.tool()
async def echo(text: str) -> str:
    begin("echo")
    return text


print(f"peer listens on {port}", file=sys.stderr, flush=True)
server.run(transport="streamable-http")
