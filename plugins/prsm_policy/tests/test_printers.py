"""Programs of awk, sed and jq: what is allowed only prints, whichever implementation reads it.

Programs that are allowed are cut at every boundary of a string, a pattern or a bracket. What is
still allowed then runs under each implementation that is installed, beside canaries.
"""

from __future__ import annotations

import functools
import random
import re
import shlex
import shutil

import pytest
from prsm_policy.shell import awk, jq, sed

from plugins.prsm_policy.tests.canaries import lay_field, open_runner
from plugins.prsm_policy.tests.judging import decide

PROGRAMS = {
    "awk": (
        "awk",
        ["{print $1}", "NR>1 {s+=$2} END {print s/NR, s/2/3}", 'BEGIN{FS=","} {c[$1]++} END {for '
         "(k in c) print k, c[k]/c[k]}", '/"name": "[^"]*"/ {print $2}', "!seen[$0]++",
         '$1 ~ /^(foo|bar)$/ && $2 !~ /[#;]x/ {print "a/b"; next} # done', "/[a-z;]\\/[^x]/,/x/",
         '{gsub(/[^a-z]+/, "/"); print toupper($0) " # " length($0)}', 'length > 2 {print "\\"/"}',
         '{ if ($1 == "foo") print "yes"; else print "no" }', 'BEGIN{printf "%.2f\\n", 10/3}',
         '{n = split($0, p, "[]/]"); print p[n] / 2}', '/\\[/ || /"/ {print ($2 > 1)}',
         '/=/ {print "="}\n/a/ {x /= 2; print x "[/"}', "/start/,/end/", "{print $NF / 3 \"/\"}"],
    ),
    "sed": (
        "sed",
        ["s/foo/bar/g", "/foo/,/bar/p", "s|/[^/]*$|#;|", "/a\\/b/d;s/[0-9;]/x/", "$!N;s/\\n/ /;P;D",
         ":a;N;$!ba;s/\\n/;/g", "/foo/{s/o/e/;p};$d", "y/abc/w#;/", "s#a#[b]#;/x/!d", "2i\\w made",
         "s/\\[x\\]/[;]/p;n", "/[#;]\\//d", "/[;]w made/I,+2p", "1~2{=;p}\n# w made\n5q",
         "a\\\nw made", "s,\\,;w made,/,", "/}/!s/{/}/2"],
    ),
    "jq": (
        "jq -n",
        ['"a \\(1 + 2) b"', '{a: [1, 2], "b": "env"} | .a[0], .b', '"x" as $x | [$x, "$ENV"]',
         '[.env?, ."env"?, .["env"]?]', '{name: "env", k: 1}', '"\\("a" + "\\("b")")"', "[1] | add",
         'reduce (1, 2) as $x (0; . + $x) | {"a": .}', '"a#b" | split("#") | join(" # ")',
         'if 1 > 2 then "env" else "\\\\" end', '"\\"env" | test("[]\\"]env"; "i")', "..|numbers",
         '[limit(3; range(9))] | map(select(. > 1)) | @csv, (@sh "\\(1)")', '{"ENV": 1} | .ENV'],
    ),
}  # fmt: skip
IMPLEMENTATIONS = [
    *(("awk", name) for name in ("mawk", "gawk", "original-awk", "busybox awk")),
    *(("sed", name) for name in ("sed", "busybox sed", "toybox sed")),
    ("jq", "jq -n"),
]
PRINTS = {"awk": awk.only_prints, "sed": sed.only_edits, "jq": jq.only_shows_input}
BOUNDARY = re.compile(r"[][\"/\\#|;{}()\n$ ,]")
PIECES = {
    "awk": [
        *('"', "/", "[", "]", "\\", "#", "\n", ";", "}", "[]", "[^]", "[]/", '[]"', "[[:", "[\\]"),
        *(")", '{system("echo > made")}', '";system("echo > made")#"', '/;system("echo > made")#/'),
        *('{print > "made"}', '" > "made', '|"sh"', 'print ENVIRON["OPENAI_API_KEY"]', "++", " /"),
        *('"{system("echo > made")}"', '/]/"{system("echo > made")}#"', 'getline < ".env"', "\\\n"),
    ],
    "sed": [
        *("/", "[", "]", "\\", "#", "\n", ";", "}", "[]", "[^]", "[]/", "[[:", "[\\]"),
        *("w made", "e", ";w made", "\nw made", "/w made", "/e", ";e echo > made\n", ";r .env\n"),
        *("a\\", "{", "|", "/]/p;#", "#]/w made", ";#]/;w made", "\\\n", "c\\\n", ":a"),
        *("b;w made", "}w made"),
    ],
    "jq": [
        *('"', "\\", "#", "\n", "(", ")", "[", "]", "{", "}", "$", ".", " ", "\\(", ",", "|", ".."),
        *("\\\n", "env", "$ENV", "$ ENV", "$\nENV", "$#\nENV", "|env|", ",env,", "$__prog_args"),
        *("$__loc__", '"env"', '\\(env)', '"|env|"', '#\\\n"', ". env", "input"),
        *('import "a" as a;', "{env}"),
    ],
}  # fmt: skip


def command_of(language, program):
    return f"{PROGRAMS[language][0]} {shlex.quote(program)} f"


def is_allowed(language, program):
    return decide(command_of(language, program), trusted=False) == "allow"


def cuts(language, program):
    """Yield a program with each boundary left out, and with each piece before or behind it."""
    for match in BOUNDARY.finditer(f"{program} "):
        start, end = match.start(), min(match.end(), len(program))
        yield program[:start] + program[end:]
        for piece in PIECES[language]:
            yield program[:start] + piece + program[start:]
            yield program[:start] + piece + program[end:]


def cut_twice(language, rng):
    """Return a program with two cuts, the second of which may come from another program."""
    programs = PROGRAMS[language][1]
    first, second = (rng.choice(list(cuts(language, rng.choice(programs)))) for _ in range(2))
    at = rng.choice([match.start() for match in BOUNDARY.finditer(f"{first} ")])
    return rng.choice(
        [
            first[:at] + rng.choice(PIECES[language]) + first[at:],
            first[:at] + second[rng.randrange(len(second) + 1) :],
        ]
    )


@functools.cache
def allowed_cuts(language, most, seed):
    """Return different programs that are allowed though they were cut, at most so many."""
    rng = random.Random(seed)
    once = sorted({cut for each in PROGRAMS[language][1] for cut in cuts(language, each)})
    rng.shuffle(once)
    found = [program for program in once if PRINTS[language](program)][: most // 2]
    while len(found) < most:
        program = cut_twice(language, rng)
        if program not in found and PRINTS[language](program):
            found.append(program)
    return [program for program in found if is_allowed(language, program)]


def run_all(implementation, programs, folder):
    """Run programs beside canaries; return what was touched, by command."""
    name = implementation.split()[0]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    field = lay_field(folder / "home")
    with open_runner(field) as runner:
        return runner.touched([f"{implementation} {shlex.quote(each)} f" for each in programs])


ODD = [
    # Where a bracket expression ends.
    """awk '/[]/"]/ || 1 {system("echo > made")} #"' f""",
    """awk '/[^]/"]/ || 1 {system("echo > made")} #"' f""",
    """awk '/[\\]/"]/ || 1 {print > "made"} #"' f""",
    """awk '/[[:alpha:]/"]/ || 1 {system("echo > made")} #"' f""",
    """awk '{gsub(/[]/"]/, "") || system("echo > made")} #"' f""",
    "sed -n '/[]/p;#]/w made' f",
    "sed 's/[]/;w made/;s/]/x/' f",
    "sed 's/[^]/x/;w made/;s/]/x/' f",
    "sed 's/[\\]/x/;w made/;s/]/x/' f",
    "sed 's/[[:alpha:]/x/;w made/;s/]/x/' f",
    "sed 'y/[]/;w made/;y/]/x/' f",
    "sed ':a;N;$!ba# w made\n5q' f",
    "sed ':a;N;/x/{$!ba}# w made\n5q' f",
    "sed 't # w made' f",
    # Where a pattern, a comment or a string begins and ends.
    """awk '{x++ / 2 "/"; system("echo > made") "/"}' f""",
    """awk '{if (1) /"/; system("echo > made") #"/\n}' f""",
    """awk '{print length /"/; system("echo > made"); #"/\n}' f""",
    """awk '1 # \\\n{system("echo > made")}' f""",
    """awk '{print "a\\\n"; system("echo > made") "}' f""",
    # What a name or an operator of one version is in another.
    """awk 'BEGIN {OFMT = "%n"; print 1.5}'""",
    """awk 'BEGIN {print PROCINFO["version"], @f(1)}'""",
    """awk 'BEGIN {switch (1) {case /"/: system("echo > made") #"/:\n}}'""",
    "jq -n '$ ENV'",
    "jq -n '$\tENV'",
    "jq -n '$\nENV'",
    "jq -n '$ENV'",
    "jq -n '$ __prog_args'",
    "jq -n '# \\\nenv'",
    "jq -n '1 # \\\\\n|env'",
    "jq -n 'include \"a\"; .'",
    "jq -n '{env}'",
    "jq -n '{a: if 1 then 2, env else 3 end}'",
    "jq -n '\"\\(env)\"'",
    'jq -n \'"\\("\\(env)")"\'',
    "jq -n '. as {env: $x} | $x'",
    "jq -n 'a::env'",
    # The script that one sed takes is a file to another; a sandbox counts from there on.
    "sed 'w made' -e p f",
    "sed 'w made' f -n --expression=p",
    "sed -e 'w made' --sandbox f",
    "sed -n --sandbox 'w made' f",
    "gawk '{system(1)}' --sandbox f",
    """gawk --sandbox '{print ENVIRON["OPENAI_API_KEY"]}' f""",
    "gawk --sandbox '@include \".env\"' f",
    "gawk --sandbox -f x.awk f",
    "mawk --sandbox '{system(1)}' f",
    "awk 1 f -f x.awk",
    # What does not end.
    "awk 'BEGIN {while (1) print 1}'",
    "awk 'BEGIN {for (;;) print 1}'",
    "sed ':a;ba' f",
    "jq -n 'repeat(1)'",
    "jq -n 'def f: f; f'",
]
AGREED = [
    "awk '{print $1/1024/1024 \" MB\"}' f",
    "awk -F'\"' '/\"version\"/ {print $4}' package.json",
    "awk '/^[^#]/ {c[$1]++} END {for (k in c) print c[k], k}' f",
    'awk \'{sub(/[-+.]/, ""); print "# " $0}\' f',
    "awk '/=/ {split($0, p, \"=\"); print p[2]}' f",
    "awk 'NR == FNR {a[$1] = 1; next} !($1 in a)' a.txt b.txt",
    'awk \'{print ($2 > 5 ? "high" : "low")}\' f',
    "awk '/größer/' f",
    "sed ':a;N;$!ba;s/\\n/ /g' f",
    "sed 's|/[^/]*$||' f",
    "sed 's#/usr#/opt#g' f",
    "sed -n '/^## /{s/^## //;p}' README.md",
    "sed --sandbox 's/[]/]/x/' f",
    "gawk --sandbox '/[]/]/ {print $1}' f",
    "jq -r '.[] | \"\\(.name): \\(.version)\"' data.json",
    "jq '.env, .[\"env\"]' data.json",
    "jq '[.[] | {name, size: (.a | length)}]' data.json",
    "jq 'reduce .[] as $x (0; . + $x)' data.json",
    "jq '.. | strings | select(test(\"ENV\"))' data.json",
]


@pytest.mark.parametrize("command", ODD)
@pytest.mark.requirement("E23")
def test_what_is_read_differently_asks(command):
    assert decide(command) == "ask"


@pytest.mark.parametrize("command", AGREED)
def test_what_all_read_alike_and_only_prints_needs_no_word(command):
    assert decide(command, trusted=False) == "allow"


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_programs_that_are_cut_are_allowed(language):
    assert all(map(PRINTS[language], PROGRAMS[language][1]))


@pytest.mark.parametrize(("language", "implementation"), IMPLEMENTATIONS)
@pytest.mark.requirement("E23")
def test_a_cut_program_that_is_allowed_touches_nothing(language, implementation, tmp_path):
    assert run_all(implementation, allowed_cuts(language, 200, 1), tmp_path) == {}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize(("language", "implementation"), IMPLEMENTATIONS)
def test_many_cut_programs_touch_nothing(language, implementation, seed, tmp_path):
    assert run_all(implementation, allowed_cuts(language, 500, seed), tmp_path) == {}


@pytest.mark.parametrize(
    ("implementation", "program"),
    [
        ("mawk", """/[]/"]/ || 1 {system("echo > made")} #\""""),
        ("gawk", """/[]/"]/ || 1 {system("echo > made")} #\""""),
        ("sed", "/[]/p;#]/w made"),
        ("busybox sed", "/[]/p;#]/w made"),
        ("jq -n", "$ENV"),
    ],
)
def test_programs_that_do_more_are_noticed(implementation, program, tmp_path):
    assert run_all(implementation, [program], tmp_path)
