#!/usr/bin/env python3
"""Checks values against the core schemas of 2025-11-25 and 2026-07-28.

The models come with the Python SDK (mcp-types), which generates them from the published JSON Schemas. They are internal
to that package, and pinned here. One JSON object a line in FILE: where, version, schema, value.
Prints one JSON object; exit 0 iff everything fits."""

import importlib
import json
import sys
from importlib.metadata import version

from pydantic import TypeAdapter, ValidationError

passed, wrong = 0, []
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        item = json.loads(line)
        module = importlib.import_module("mcp_types._v" + item["version"].replace("-", "_"))
        schema = TypeAdapter(getattr(module, item["schema"]))
        try:
            # Strictly: a number in a string is no number.
            schema.validate_json(json.dumps(item["value"]), strict=True)
            passed += 1
        except ValidationError as error:
            wrong.append({**item, "errors": json.loads(error.json(include_url=False))})
print(
    json.dumps(
        {
            "schemas": f"mcp-types {version('mcp-types')}",
            "passed": passed,
            "failed": len(wrong),
            "unexpected": wrong,
            "crash": None,
        }
    )
)
sys.exit(1 if wrong else 0)
