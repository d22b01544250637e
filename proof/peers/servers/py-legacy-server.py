#!/usr/bin/env python3
"""A server nobody here wrote the inside of: the Python SDK over Streamable HTTP.
  py-legacy-server.py PORT FOLDER sessions|stateless|json|tls

Every call leaves a line in FOLDER/begun; `steps` works until FOLDER/open exists. With `tls` it is https, with a certificate that
nobody has signed, which it leaves in FOLDER/cert.pem."""

import asyncio
import datetime
import ipaddress
import pathlib
import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

port, folder, mode = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
server = FastMCP(
    "peer",
    host="127.0.0.1",
    port=port,
    stateless_http=mode == "stateless",
    json_response=mode == "json",
    log_level="WARNING",
)


class Name(BaseModel):
    name: str


def begin(label: str) -> None:
    with open(folder / "begun", "a") as begun:
        begun.write(label + "\n")


@server.tool()
async def echo(text: str) -> str:
    begin("echo")
    return text


@server.tool()
async def steps(label: str, ctx: Context) -> str:
    begin(label)
    await ctx.report_progress(1, 2, f"{label} has begun")
    while not (folder / "open").exists():
        await asyncio.sleep(0.05)
    return f"{label} is done"


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who is there?", Name)
    return f"{answer.action}: {answer.data.name if answer.action == 'accept' else ''}"


def certificate() -> tuple[str, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "peer")])
    now = datetime.datetime.now(datetime.timezone.utc)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return str(cert), str(secret)


if mode == "tls":
    import uvicorn

    cert, secret = certificate()
    print(f"peer listens on {port}", file=sys.stderr, flush=True)
    uvicorn.run(
        server.streamable_http_app(),
        host="127.0.0.1",
        port=port,
        ssl_certfile=cert,
        ssl_keyfile=secret,
        log_level="warning",
    )
else:
    print(f"peer listens on {port}", file=sys.stderr, flush=True)
    server.run(transport="streamable-http")
