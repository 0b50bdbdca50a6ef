"""The class of commands that look things up at a service, and change nothing there or here.

They are no readers of the workspace: what they ask leaves this machine with the user's login, so
that a person says once whether agents may do so. Subcommands that show secrets are not in it, nor
are programs that load code of the repository to answer (yarn, terraform).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.safe import program_name, sets_only_harmless
from prsm_policy.safe.options import Syntax, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Word

    Paths = frozenset[tuple[str, ...]]


def _paths(text: str) -> Paths:
    """Return subcommands, written a line each: a group, then the words that may follow it."""
    found = set()
    for line in filter(str.strip, text.splitlines()):
        group, _, names = line.partition(":")
        heads = tuple(group.split())
        found |= {(*heads, name) for name in names.split()} or {heads}
    return frozenset(found)


_GH = _paths("""
    pr: list view status diff checks
    issue: list view status
    run: list view
    repo: list view
    release: list view
    workflow: list view
    label: list
    ruleset: list view check
    search: code commits issues prs repos
    status
""")
_GH_OPTIONS = Syntax(
    flags="cav",
    valued="LsSAlBHRbjqtwue",
    long=word_set(
        "comments name-only patch required limit= state= search= author= assignee= label= base="
        " head= repo= json= jq= template= draft milestone= mention= app= color= branch= user="
        " event= status= workflow= job= log log-failed verbose exit-status attempt= commit= yaml"
        " archived fork language= visibility= topic= source owner= sort= order= all"
    ),
    texts=-1,
    free=word_set("-S --search -q --jq -t --template --json"),
)
_KUBECTL = _paths("""
    get: pods pod po deployments deployment deploy services service svc nodes node no namespaces
    get: namespace ns events ev ingress ingresses ing jobs job cronjobs cronjob cj replicasets
    get: replicaset rs statefulsets statefulset sts daemonsets daemonset ds pvc pv hpa endpoints ep
    describe: services service svc node nodes no ingress ing pvc pv hpa namespace ns
    top: pods pod nodes node
    rollout: status history
    config: current-context get-contexts
    cluster-info
    api-resources
    api-versions
    version
""")
_KUBECTL_OPTIONS = Syntax(
    flags="A",
    valued="nlL",
    long=word_set(
        "all-namespaces namespace= selector= label-columns= show-labels no-headers sort-by= client"
        " field-selector= containers timeout= revision= namespaced="
    ),
    texts=-1,
    free=word_set("-l --selector --field-selector --sort-by"),
)
_DOCKER = _paths("""
    ps
    images
    version
    info
    port
    top
    container: ls list port top
    image: ls list
    volume: ls list
    network: ls list
    compose: ps ls images top port version
    context: ls list
    search
""")
_DOCKER_OPTIONS = Syntax(
    flags="alqsn",
    valued="f",
    long=word_set(
        "all latest no-trunc quiet size filter= format= last= digests limit= no-stream human"
        " services status= orphans"
    ),
    texts=-1,
    free=word_set("--format --filter -f"),
)
_NPM = _paths("view\ninfo\nshow\nv\noutdated\nsearch\nping\nfund")
_NPM_OPTIONS = Syntax(flags="gl", long=word_set("json all long parseable depth="), texts=-1)

# By program: the words that begin a look-up, and the options it may have.
_PROGRAMS: Mapping[str, tuple[Paths, Syntax]] = {
    "gh": (_GH, _GH_OPTIONS),
    "kubectl": (_KUBECTL, _KUBECTL_OPTIONS),
    **dict.fromkeys(("docker", "podman"), (_DOCKER, _DOCKER_OPTIONS)),
    "docker-compose": (_paths("ps\nls\nimages\ntop\nversion"), _DOCKER_OPTIONS),
    "npm": (_NPM, _NPM_OPTIONS),
    **dict.fromkeys(
        ("pip", "pip3"),
        (
            _paths("index: versions\nsearch"),
            Syntax(long=word_set("pre json no-color disable-pip-version-check"), texts=-1),
        ),
    ),
    "helm": (
        _paths("list\nls\nstatus\nhistory\nversion\nrepo: list\nsearch: repo hub"),
        Syntax(
            flags="aAqdr",
            valued="nlomf",
            long=word_set("all all-namespaces namespace= short date reverse max= filter= versions"),
            texts=-1,
        ),
    ),
    "systemctl": (
        _paths(
            "status\nis-active\nis-enabled\nis-failed\nlist-units\nlist-timers\nlist-unit-files"
        ),
        Syntax(
            flags="alq",
            valued="tn",
            long=word_set("all full no-pager no-legend plain user type= state= failed lines="),
            texts=-1,
        ),
    ),
    "apt": (
        _paths("list\nshow\nsearch\npolicy"),
        Syntax(flags="aq", long=word_set("installed upgradable all-versions quiet"), texts=-1),
    ),
    "apt-cache": (
        _paths("show\nsearch\npolicy\ndepends\nrdepends\nmadison\nshowpkg\nstats"),
        Syntax(flags="qn", long=word_set("names-only full quiet installed recurse"), texts=-1),
    ),
    "brew": (
        _paths("list\nls\ninfo\nsearch\noutdated\ndeps"),
        Syntax(flags="1vlr", long=word_set("json versions formula cask verbose tree"), texts=-1),
    ),
    "aws": (
        _paths("sts: get-caller-identity\ns3: ls"),
        Syntax(
            long=word_set("region= output= query= profile= no-cli-pager recursive human-readable"),
            texts=-1,
            free=word_set("--query"),
        ),
    ),
}
# Other formats of these show what a resource holds, its environment too.
_FORMATTING = frozenset({"kubectl", "helm"})
_PLAIN_FORMATS = frozenset({"wide", "name", "table"})
_PLAIN_OPTION = re.compile(r"(?:-o|--output=)(?:wide|name|table)")


def is_lookup(command: Command, place: Place) -> bool:
    """Return whether a simple command only looks things up at a service."""
    name = program_name(command.words[0]) if command.words else None
    if name is None or name not in _PROGRAMS or not sets_only_harmless(command):
        return False
    if command.writes or command.feeds or not all(word.known for word in command.words):
        return False
    starts, rules = _PROGRAMS[name]
    arguments = command.words[1:]
    size = _size(starts, [word.text for word in arguments])
    rest = _without_plain_output(arguments[size:]) if name in _FORMATTING else arguments[size:]
    return size > 0 and parse(rest, rules, place) is not None


def are_lookups(parts: Iterable[tuple[Command, Place]]) -> bool:
    """Return whether each of some parts of a command, at least one, is a look-up."""
    found = [is_lookup(part, place) for part, place in parts]
    return bool(found) and all(found)


def _without_plain_output(words: Sequence[Word]) -> list[Word]:
    """Return the words without a format that shows names and states only: `-o wide`."""
    rest: list[Word] = []
    for word in words:
        if word.text in _PLAIN_FORMATS and rest and rest[-1].text in {"-o", "--output"}:
            rest.pop()
        elif not _PLAIN_OPTION.fullmatch(word.text):
            rest.append(word)
    return rest


def _size(starts: Paths, words: Sequence[str]) -> int:
    """Return how many of the first words name the look-up, 0 if they name none."""
    return next((size for size in (2, 1) if tuple(words[:size]) in starts), 0)
