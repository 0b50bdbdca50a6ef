"""Mutated commands of all lists: what is allowed is run beside canaries, and touches none."""

from __future__ import annotations

import random

import pytest

from plugins.prsm_policy.tests.canaries import lay_ground_field, open_runner
from plugins.prsm_policy.tests.judging import decide, lines, rows

MAX_COMMAND = 400  # characters
LISTS = ("commands_sample.jsonl", "new_commands.jsonl", "red_team.jsonl")
HARMLESS_LISTS = ("safe_commands.txt", "ordinary_commands.txt", "everyday_commands.txt")
HARMFUL_LISTS = ("hostile_commands.txt", "dangerous_commands.txt", "hostile_compositions.txt")
GLUE = [
    *(
        "; ",
        " && ",
        " || ",
        " | ",
        "\n",
        " & ",
        " $(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        "{",
        "}",
        "[",
        "]",
    ),
    *(" <(", " >", " >>", " <", " 2>&1", " 2>/dev/null", " | xargs ", " #", " -", "=", "$", "*"),
    *("~", "..", "/", "!", " -exec ", " -i", " -o ", " -f ", " -e ", " --", "\t", "\\\n", "%", "@"),
]
FRAMES = [
    "{}", "{}", "({})", "{{ {}; }}", "if {}; then ls; fi", "for x in a b; do {}; done", "! {}",
    'echo "$({})"', "cat <({})", "cd src && {}", "timeout 2 {}", "{} | head -3", "time {}",
    "while read -r x; do {}; done < a.txt", "git ls-files | xargs {}", "find . -exec {} \\;",
    "find src -name '*.py' | while read -r x; do {}; done", "x=$({}); echo $x", "{} || true",
]  # fmt: skip


def _split(named):
    """Return the harmless commands of all lists and the others."""
    harmless: set[str] = set()
    others: set[str] = set()
    for row in (row for name in named for row in rows(name)):
        (harmless if row["expected"] == "allow" else others).add(row["command"])
    for target, names in ((harmless, HARMLESS_LISTS), (others, HARMFUL_LISTS)):
        for name in names:
            target |= {line.rpartition("\t")[2].replace("⏎", "\n") for line in lines(name)}
    return [sorted(c for c in each if len(c) < MAX_COMMAND) for each in (harmless, others)]


HARMLESS, OTHERS = _split(LISTS)


def _characters(rng, text):
    """Return a text with a few characters left out, put in, or taken from elsewhere."""
    letters = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(letters) + 1)
        match rng.randrange(4):
            case 0:
                del letters[at : at + rng.randint(1, 3)]
            case 1:
                letters[at:at] = rng.choice(GLUE)
            case 2:
                letters[at:at] = chr(rng.choice([rng.randrange(1, 128), rng.randrange(1, 0x3000)]))
            case _:
                other = rng.choice(OTHERS)
                cut = rng.randrange(len(other))
                letters[at:at] = other[cut : cut + rng.randint(1, 20)]
    return "".join(letters)


def _words(rng, text):
    """Return a text with words of other commands put in, or in the place of its own."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words) + 1)
        word = rng.choice(rng.choice([HARMLESS, OTHERS]).copy()).split(" ")
        words[at : at + rng.randint(0, 1)] = [rng.choice(word)]
    return " ".join(words)


def _joined(rng, text):
    other = rng.choice(rng.choice([HARMLESS, HARMLESS, OTHERS]))
    return text + rng.choice(GLUE[:6]) + other


def _framed(rng, text):
    return rng.choice(FRAMES).format(text)


def mutated(rng):
    """Return a command that is like those of the lists."""
    text = rng.choice(HARMLESS if rng.random() < 0.75 else OTHERS)
    for _ in range(rng.choice([1, 1, 1, 2])):
        text = rng.choice([_characters, _characters, _words, _words, _joined, _framed])(rng, text)
    return text


def allowed_of(rng, work, count):
    """Judge mutated texts; return those that an untrusted workspace would let run unasked."""
    found: dict[str, None] = {}
    for _ in range(count):
        text = mutated(rng)
        if "\0" not in text and decide(text, work, trusted=False) == "allow":
            found[text] = None
    return list(found)


def run_mutated(seed, count, folder, report):
    field = lay_ground_field(folder / "home")
    with open_runner(field) as runner:
        texts = allowed_of(random.Random(seed), field.work, count)
        touched = runner.touched(texts)
    report(
        f"command policy: {count} mutated texts judged, {len(texts)} allowed and run,"
        f" {len(touched)} touched"
    )
    assert touched == {}
    return len(texts)


def test_the_ground_tells_what_is_touched(tmp_path):
    field = lay_ground_field(tmp_path / "home")
    work = field.work
    touching = {
        "cat .env": ["said a canary", f"read {work}/.env"],
        "cksum .env": [f"read {work}/.env"],
        "echo $OPENAI_API_KEY": ["said a canary"],
        "echo > made": [f"changed {work}/made"],
        "echo > made; /bin/rm made": [f"changed {work}"],
        "echo > /etc/made": ["changed /etc/made"],
        "echo > ~/made": [f"changed {field.home}/made"],
        "echo > /srv/made": ["changed /srv/made"],
        "echo > /usr/made": ["wrote where nothing is to be written"],
        "echo > /dev/tcp/192.0.2.1/80": ["reached for the network"],
        "cat /root/.ssh/id_rsa": ["said a canary", "read /root/.ssh/id_rsa"],
        "curl -s localhost": ["started curl -s localhost"],
        "awk 'BEGIN{system(\"true\")}'": ["started sh -c true"],
        "git -C hostile/monitor status": [f"changed {work}/ran"],
        "cd hostile/external && git diff": [f"changed {work}/ran"],
        "cd hostile/hook && git status": [f"changed {work}/hostile/hook/.git/hooks/ran"],
    }
    harmless = ["ls", "cat README.md", "git status", "git -C ordinary/plain status", "sleep 60",
                "python3 --version", "echo > /tmp/x", "git log -p", "egrep a a.txt"]  # fmt: skip
    with open_runner(field) as runner:
        told = runner.touched([*harmless, *touching, *harmless])
    assert {command: told.get(command, [])[: len(what)] for command, what in touching.items()} == (
        touching
    )
    assert told.keys() == touching.keys()


@pytest.mark.requirement("E23", "E24")
def test_mutated_texts_that_are_allowed_touch_no_canary(tmp_path, report):
    assert run_mutated(1, 500, tmp_path, report) > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 102))
def test_of_a_hundred_thousand_mutated_texts_none_touches_a_canary(seed, tmp_path, report):
    run_mutated(seed, 1_000, tmp_path, report)
