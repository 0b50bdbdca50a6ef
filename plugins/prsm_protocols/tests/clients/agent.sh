#!/usr/bin/env bash
# An agent in bash that speaks the wire protocol itself: by the socket (curl) or by Redis (/dev/tcp).
# bootstrap: it reads its page and moves to inbox; inbox: it completes.
set -euo pipefail

request() {  # do, args as JSON: the request as one line, with a new id in $id
    id=$(< /proc/sys/kernel/random/uuid)
    printf '{"agent":"%s","token":"%s","id":"%s","do":"%s","args":%s}' \
        "$AGENT_ID" "$PRSM_TOKEN" "$id" "$1" "$2"
}

bulk() {  # words: a command of Redis
    local LC_ALL=C word
    printf '*%d\r\n' $#
    for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done
}

reply() {  # one answer of Redis, into $answer
    local kind rest size
    IFS= read -r kind <&3
    kind=${kind%$'\r'} rest=${kind:1}
    case $kind in
        -*) echo "Redis: $rest" >&2; return 1 ;;
        \$*) IFS= read -r answer <&3; answer=${answer%$'\r'} ;;
        \**) for ((size = rest; size > 0; size--)); do reply; done ;;
        *) answer=$rest ;;
    esac
}

ask_redis() {  # line
    local url=${PRSM_REDIS#redis://} credentials place keys="prsm:{$AGENT_ID}"
    credentials=${url%@*} place=${url##*@}
    place=${place%%/*}
    exec 3<>"/dev/tcp/${place%:*}/${place##*:}"
    bulk AUTH "${credentials%%:*}" "${credentials#*:}" >&3; reply
    bulk XADD "$keys:requests" '*' r "$1" >&3; reply
    bulk BLPOP "$keys:reply:$id" 30 >&3; reply
    exec 3>&-
}

ask_socket() {  # line
    coproc CURL { curl -sN --unix-socket "$PRSM_SOCKET" telnet://aism; }
    printf '%s\n' "$1" >&"${CURL[1]}"
    IFS= read -r answer <&"${CURL[0]}"
    kill "$CURL_PID"; wait "$CURL_PID" || true
}

ask() {  # do, args
    local line
    request "$@" > /tmp/request; line=$(< /tmp/request)
    if [[ ${PRSM_SOCKET:-} ]]; then ask_socket "$line"; else ask_redis "$line"; fi
    echo "$answer"
    [[ $answer == *'"ok":true'* ]]
}

while IFS= read -r line; do
    case $line in
        *"in state 'bootstrap'"*)
            grep -q '^# Protocol: bootstrap' "$PRSM_PROTOCOLS/bootstrap.md"
            ask state '{"to":"inbox","context":{"bootstrap":"complete"}}' ;;
        *"in state 'inbox'"*)
            ask complete '{"summary":"bash has read everything"}'
            exit 0 ;;
    esac
done
