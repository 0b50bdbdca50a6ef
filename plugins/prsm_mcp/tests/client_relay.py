"""An MCP client's process: starts a command, and passes on what goes over its streams.

`python client_relay.py COMMAND [ARGUMENT ...]`; so the client is no ancestor of the test.
"""

import os
import subprocess
import sys
from threading import Thread

CHUNK = 1 << 16


def pass_on(source, target):
    while chunk := os.read(source, CHUNK):
        os.write(target, chunk)
    os.close(target)


def main(argv):
    command = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert command.stdin is not None
    assert command.stdout is not None
    for pair in ((0, os.dup(command.stdin.fileno())), (os.dup(command.stdout.fileno()), 1)):
        Thread(target=pass_on, args=pair, daemon=True).start()
    command.stdin.close()
    return command.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
