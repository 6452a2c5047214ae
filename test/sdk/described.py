"""What Schemathesis has to be told of the API: of lines, and of what is no mistake."""

import ast
import json
import threading

import schemathesis

LINES = "application/x-ndjson"

# Up to Python 3.12 a depth that ast.parse keeps is that of all threads together: two at once may fail
# with a SystemError (python/cpython#106905). Hypothesis parses in each worker.
parse, one = ast.parse, threading.RLock()


def parse_alone(*args, **kwargs):
    with one:
        return parse(*args, **kwargs)


ast.parse = parse_alone


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """The schema of a listing is that of each line; here it is that of all of them."""
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                lines = response.get("content", {}).get(LINES)
                if lines:
                    lines["schema"] = {"type": "array", "items": lines["schema"]}


@schemathesis.deserializer(LINES)
def read_lines(context, response):
    """An empty line, or one that was cut off, is no JSON, and an error."""
    return [json.loads(line) for line in response.content.splitlines()]


@schemathesis.serializer(LINES)
def write_lines(context, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


# What is sent here is judged one by one: the answer 200 says of each why it was not taken, of a body
# that is no JSON too.
JUDGED = {"/api/v1/crm/events", "/api/v1/delivery/events", "/api/v1/windows/records"}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """An instance may say that it has no room now, and when to come again."""
    if response.status_code == 503 and "retry-after" in {name.lower() for name in response.headers}:
        return False
    return not (type(failure).__name__ == "AcceptedNegativeData" and case.operation.path in JUDGED)
