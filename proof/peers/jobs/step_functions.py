"""Step Functions as moto has them, with one state machine that waits. Says on stderr where it is, and runs until it is killed."""

import json
import logging
import sys
import threading
import urllib.request

import boto3
from moto.server import ThreadedMotoServer

DEFINITION = {
    "StartAt": "Heat",
    "States": {
        "Heat": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "Forge"},
        "Forge": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.cold", "BooleanEquals": True, "Next": "Break"}],
            "Default": "Done",
        },
        "Done": {"Type": "Pass", "End": True},
        "Break": {"Type": "Fail", "Error": "Cold", "Cause": "the iron is cold"},
    },
}

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
base = f"http://{host}:{port}"
settings = json.dumps({"stepfunctions": {"execute_state_machine": True}}).encode()
urllib.request.urlopen(urllib.request.Request(f"{base}/moto-api/config", data=settings, method="POST"))
keys = {"aws_access_key_id": "AKID", "aws_secret_access_key": "sesame"}
client = boto3.client("stepfunctions", endpoint_url=base, region_name="us-east-1", **keys)
role = "arn:aws:iam::123456789012:role/forge"
client.create_state_machine(name="Forge", definition=json.dumps(DEFINITION), roleArn=role)
print(f"serving {base}/", file=sys.stderr, flush=True)
threading.Event().wait()
