"""Fuzzed texts that are allowed are run: none reads a secret, changes a file, or starts a trap."""

from __future__ import annotations

import random
import re

import pytest

from plugins.prsm_policy.tests.canaries import lay_field, open_runner
from plugins.prsm_policy.tests.judging import decide, lines, rows

BATCH = 50


def _words(text):
    return text.split()


# They wait for ever, or for long.
_WAITS = re.compile(r"\bsleep\b|\btail\b.*(?:-\w*[fF]|--follow|--retry)|\bwatch\b|\byes\b")
# They read settings of their own, and write logs.
_OWN = re.compile(r"\b(?:npm|npx|pnpm|yarn|pip3?|uv|cargo|docker)\b")
CORPUS = sorted(
    {
        *lines("safe_commands.txt"),
        *lines("ordinary_commands.txt"),
        *lines("hostile_commands.txt"),
        *(row["command"] for row in rows("commands_sample.jsonl") if len(row["command"]) < 300),
    }
)
PROGRAMS = [
    *_words(
        "cat head tail wc nl sort uniq cut tr rev tac paste comm diff cmp grep egrep rg find fd"
    ),
    *_words("ls stat file du tree xxd od strings base64 md5sum sha256sum jq sed awk xargs echo"),
    *("git status", "git diff", "git log", "git show", "git grep", "git -C vendor/bare status"),
    *(
        "cd src && cat",
        "cd out && cat",
        "cd vendor/bare && git status",
        "printf '%s\\n'",
        "test -f",
    ),
]
PIECES = [
    *_words(
        "* ? .* .e* .en? .en[v] .[a-z]* [.]env src/* src/l* l* k*/* out/* *.txt *.p* config/* **"
    ),
    *_words(
        ".env ./.env src/.env src/../.env link src/lnk out/notes.txt ../outside/notes.txt id_rsa"
    ),
    *_words("README.md src tests . .. a.txt b.txt src/app.py data.json list names.txt -n -rf * ~"),
    *_words("-r -R -n -l -i -c -e -f -o -v -h -a -u -z -0 -- - -rn -H --hidden --no-ignore -uu"),
    *("--files0-from=list", "--files0-from list", "-f names.txt", "-f .env", "--file=.env"),
    *("-T names.txt", "-exec cat {} +", "-exec cat {} ;", "-exec cat {} \\;", "-delete", "-print"),
    *("-name '.env'", "-name '*'", "--pre ./evil.sh", "-g '.en*'", "--include=.env", "--arg x y"),
    *("KEY .", "x .", "hello README.md", "'{print}' f", "'1,2p' f", "-n 1p f", "'s/a/b/' f"),
    *("'s/a/b/e' f", "'w made.txt' f", "'{print > \"made.txt\"}' f", "'{system(\"id\")}' f", ". f"),
    *("> made.txt", ">> a.txt", "2>&1", "2>/dev/null", "< .env", "< a.txt", "<<< x", "&> made.txt"),
    *("$(cat .env)", '"$(git ls-files)"', "$(ls)", "$(find . -type f)", "$HOME", "$OPENAI_API_KEY"),
    *(
        "<(cat .env)",
        "<(sort a.txt)",
        "`ls -a`",
        "{.env,x}",
        ".{env,x}",
        "'.e'nv",
        "\\.env",
        '".env"',
    ),
    *("$'\\x2eenv'", "@(.env)", "!(x)", "[[:punct:]]env", "?env", "[^a]env", "[!a]env", "[--/]env"),
]
JOINTS = [
    "; ",
    " && ",
    " || ",
    " | ",
    "\n",
    " | xargs cat ",
    " | xargs -0 cat ",
    " | while read -r x; do ",
]
FRAMES = [
    "{}", "{}", "{}", "({})", "{{ {}; }}", "if {}; then {}; fi", "for x in *; do {}; done",
    'for x in .e* src/*; do cat "$x"; done', "for x in $(ls -a); do cat $x; done", "! {}",
    "x=.env; {} $x", 'while read -r x; do cat "$x"; done < names.txt', "[[ -f .env ]] && {}",
    "echo $({})", 'echo "$({})"', "cat <({})", "wc -l <<E\n$({})\nE", "timeout 5 {}", "time {}",
    "find . -type f | while read -r x; do {}; done", "{} 2>/dev/null || true", "cd src; {}",
]  # fmt: skip


def composed(rng):
    """Return a text of programs, operands and joints, framed or not."""

    def one():
        words = [rng.choice(PROGRAMS), *rng.choices(PIECES, k=rng.randint(0, 4))]
        return " ".join(words)

    def many():
        text = one()
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            text += rng.choice(JOINTS) + one()
        return text

    frame = rng.choice(FRAMES)
    return frame.format(*(many() for _ in range(frame.count("{}"))))


def spliced(rng):
    """Return a known command with pieces of others, or operands, put in."""
    words = rng.choice(CORPUS).split(" ")
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(words) + 1)
        if rng.random() < 0.3 and at < len(words):
            words[at] = rng.choice(PIECES)
        else:
            words.insert(at, rng.choice([*PIECES, *JOINTS, *rng.choice(CORPUS).split(" ")]))
    return " ".join(words)


def allowed_texts(rng, work, count):
    """Return different texts that are allowed, and how many were judged until then."""
    found: dict[str, None] = {}
    judged = 0
    while len(found) < count:
        text = rng.choice([composed, spliced])(rng)
        judged += 1
        if text in found or "\0" in text or _WAITS.search(text) or _OWN.search(text):
            continue
        if decide(text, work, trusted=False) == "allow":
            found[text] = None
    return list(found), judged


def run_allowed(seed, count, folder, report):
    """Run texts that are allowed on the field; nothing may be touched."""
    field = lay_field(folder / "home")
    with open_runner(field) as runner:
        texts, judged = allowed_texts(random.Random(seed), field.work, count)
        touched: dict[str, list[str]] = {}
        for start in range(0, count, BATCH):
            touched |= runner.touched(texts[start : start + BATCH])
    report(
        f"command policy: {judged} texts judged, {count} allowed and run, {len(touched)} touched"
    )
    assert touched == {}


def test_the_field_tells_what_is_touched(tmp_path):
    field = lay_field(tmp_path / "home")
    with open_runner(field) as runner:
        told = runner.touched(
            ["cat .env", "./evil.sh", "true", "cat src/l*", "git -C vendor/bare status", "echo > x",
             "echo $OPENAI_API_KEY", "md5sum config/*", "cat README.md", "git status"]
        )  # fmt: skip
    work = field.work
    assert told["cat .env"] == ["said a canary", f"read {work}/.env"]
    assert told["./evil.sh"] == [f"changed {work}/ran.txt"]
    assert told["cat src/l*"] == ["said a canary", f"read {work}/.env"]
    assert told["git -C vendor/bare status"] == [f"changed {work}/ran.txt"]
    assert told["echo > x"] == [f"changed {work}/x"]
    assert told["echo $OPENAI_API_KEY"] == ["said a canary"]
    assert told["md5sum config/*"] == [f"read {work}/config/credentials.json"]
    assert told.keys().isdisjoint({"true", "cat README.md", "git status"})


@pytest.mark.requirement("E23")
def test_what_is_allowed_touches_no_canary(tmp_path, report):
    run_allowed(1, 250, tmp_path, report)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 22))
def test_a_hundred_thousand_allowed_texts_touch_no_canary(seed, tmp_path, report):
    run_allowed(seed, 5_000, tmp_path, report)
