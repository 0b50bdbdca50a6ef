"""Posts a notification: a program of its own, so that no run waits for a server.

Address and body come from the environment, since a command line is for all to see.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

SECONDS = 8.0


def main() -> int:
    """Post the body; print why it failed, without the address, which may be a secret."""
    # Its scheme was checked where the configuration was read.
    request = urllib.request.Request(  # noqa: S310
        os.environ["PRSM_NOTIFY_URL"],
        data=os.environ["PRSM_NOTIFY_BODY"].encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
            return 0
    except urllib.error.HTTPError as error:
        why = f"the server answered {error.code}"
    except urllib.error.URLError as error:
        why = f"the server cannot be reached: {error.reason}"
    except OSError as error:
        why = f"the connection failed: {error}"
    sys.stderr.write(why + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
