"""Asks an MCP server by its URL to begin; PRSM runs it, as `python -I -S`.

Address and headers come on stdin, since they may hold a key. What keeps the server from beginning
goes to stdout, as one line; where that is blank it began.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request

TYPE_CHECKING = False  # importing typing would cost more than all else here
if TYPE_CHECKING:
    from typing import Any


def reach(told: dict[str, Any]) -> str:
    """Return why the server does not begin, blank if it does."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "User-Agent": "prsm",
        **told["headers"],
    }
    body = json.dumps(told["request"]).encode()
    request = urllib.request.Request(str(told["url"]), data=body, headers=headers)  # noqa: S310 - an HTTP address, checked before
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
            answer.read(1)
    except urllib.error.HTTPError as error:
        return f"it answers {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
    return ""


if __name__ == "__main__":
    sys.stdout.write(reach(json.load(sys.stdin)).replace("\n", " ") + "\n")
