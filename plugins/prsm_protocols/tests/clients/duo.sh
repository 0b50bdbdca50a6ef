#!/usr/bin/env bash
# Two agents: bob writes to alice and waits for what she answers; alice answers what comes.
set -euo pipefail
case $AGENT_NAME in
    alice)
        told=$(aism message next --wait 60)
        aism message send "${told%%: *}" "pong to ${told#*: }"
        aism complete "alice has answered" ;;
    bob)
        aism message send alice ping
        aism complete "$(aism message next --wait 60)" ;;
esac
