r"""What shells of data bases do by themselves: run programs, and read and write files.

Their own commands stand among the queries: `.shell id` of sqlite3, `\! id` of psql, `system id` of
mysql, `!sh id` of beeline. sqlite3 takes any beginning of such a word, so that only words that are
known to show something are let pass. Some functions of SQL act as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.policies import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_policy.shell.words import Word
_REST = r"(?P<rest>[^\n]*)"
# A pipe behind a word that else writes or reads a file.
_PIPE = re.compile(r"\s*[\"']?\s*\|(?P<command>.*)", re.DOTALL)
_PIPED_OUTPUT = re.compile(r"(?:-[A-Za-z]*[oL]|--[a-z-]+=)?\s*\|(?P<command>.*)", re.DOTALL)
_BACKQUOTED = re.compile(r"`([^`]*)`?")
_CALL = r"[\"`\]\s]*(?:\(|/\*|--)"
_ACTS = re.compile(
    rf"\b(?:edit|(?:write|read)file|load_extension|fsdir|lsdir|zipfile|load_file|read_(?:text|blob)"
    rf"|pg_(?:read|write|ls|file|stat_file|logdir|current_logfile|execute)\w*|lo_(?:import|export)"
    rf"|dblink\w*|file|url|s3|hdfs|remote\w*|executable|sys_e\w+){_CALL}"
    r"|\b(?:xp_\w+|sp_oa\w+|sp_execute_external\w*|openrowset|bulk\s+insert|load\s+data|program"
    r"|into\s+(?:out|dump)file|create\s+(?:or\s+replace\s+)?(?:extension|language)"
    r"|install\s+(?:plugin|soname)|soname|language\s+\w*u|infile|attach|vacuum\s+into"
    r"|export\s+database)\b|\b(?:from|(?:read|scan|glob|sniff|parquet)\w*[\"\]\s]*\(\s*\[?)"
    r"\s*'(?:[/~|]|\.\.|\w+:)",
    re.IGNORECASE,
)
_EDITS = re.compile(
    r"\bedit[\"`\]\s]*\([^)]{0,200},\s*(['\"])(?P<command>(?:(?!\1).)*)", re.IGNORECASE
)


class Act(NamedTuple):
    """One thing that the shell of a data base does by itself, and the command line that it runs."""

    text: str
    command: str = ""


class _Dialect(NamedTuple):
    """How the words of one shell look.

    `word` finds one, with its `name` and the `rest` of its line, `shows` are those that only show
    something, and `runs` those whose rest is a command line. `starts` says where such a word may
    stand in an argument, if it is not the same as in a script.
    """

    word: re.Pattern[str]
    shows: re.Pattern[str]
    runs: re.Pattern[str]
    starts: re.Pattern[str] | None = None


_DOT = _Dialect(
    word=re.compile(rf"(?:^|[\n;])[ \t]*\.[\s\"']*(?P<name>[A-Za-z_]*)[\"']?(?=\s|$){_REST}"),
    shows=re.compile(
        r"tables|schema|headers?|mode|indexes|indices|databases|dbinfo|width|nullvalue|timer"
        r"|timeout|echo|explain|eqp|stats|show|fullschema|help|limits?|lint|sha3sum|version|dump"
        r"|vfsinfo|vfslist|print|quit|exit|bail|changes|separator|scanstats|columns|rows|maxrows"
        r"|maxwidth|highlight|large_number_rendering|thousand_sep|decimal_sep"
    ),
    runs=re.compile(r"s(?:h(?:e(?:ll?)?)?|y(?:s(?:t(?:em?)?)?)?)?"),
)
_PSQL = _Dialect(
    word=re.compile(rf"\\(?P<name>[A-Za-z_]+[+]?|.){_REST}", re.DOTALL),
    shows=re.compile(
        r"d[A-Za-z]*\+?|l[x+]?|list\+?|z[SxX]?|s[fv]\+?|x|a|t|T|H|h|help|q|quit|r|reset|p|print"
        r"|timing|conninfo|encoding|pset|gdesc|gx|g|echo|qecho|warn|errverbose|crosstabview|\?"
        r"|copyright|f|C|c|connect|watch|unset|if|elif|else|endif"
    ),
    runs=re.compile(r"!"),
    starts=re.compile(r"(?:-[A-Za-z]*c|--?[a-z-]+=)?\s*\\"),
)
_MYSQL = _Dialect(
    word=re.compile(
        r"(?:\\(?P<letter>[!.ePT])"
        r"|(?:^|[\n;])[ \t\r]*(?P<name>(?i:system|source|pager|tee|edit))\b)"
        rf"{_REST}"
    ),
    shows=re.compile(r"(?!)"),
    runs=re.compile(r"!|P|(?i:system|pager)"),
)
_BANG = _Dialect(
    word=re.compile(
        r"(?:^|[\n;])[ \t\r]*:?(?P<name>!+|@|\\!|(?:r|out|error|perftrace|host|shell|source"
        rf"|capture|copy|spool|start|edit|dfs|upload|login)\b){_REST}",
        re.IGNORECASE,
    ),
    shows=re.compile(r"(?!)"),
    runs=re.compile(r"!+|\\!|host|shell", re.IGNORECASE),
)
_DIALECTS: Mapping[str, _Dialect] = {
    **dict.fromkeys(
        word_set("sqlite3 sqlite sqlcipher litecli duckdb osqueryi rqlite libsql turso"), _DOT
    ),
    "psql": _PSQL,
    **dict.fromkeys(
        word_set("pgcli ysqlsh gsql cockroach usql edgedb gel"), _PSQL._replace(starts=None)
    ),
    **dict.fromkeys(word_set("mysql mariadb mycli singlestore memsql"), _MYSQL),
    **dict.fromkeys(
        word_set(
            "sqlcmd sqlplus sqlcl sql snowsql beeline hive spark-sql impala-shell cqlsh db2 isql"
            " isql-fb iscli bteq vsql clickhouse clickhouse-client clickhouse-local"
        ),
        _BANG,
    ),
}
DATA_SHELLS = frozenset(_DIALECTS)


def acts_of(name: str, arguments: Sequence[Word], feeds: Sequence[Word] = ()) -> Iterator[Act]:
    """Yield what the shell of a data base of that name is told to do by itself."""
    dialect = _DIALECTS.get(name)
    if dialect is None:
        return
    for word in arguments:
        text = word.text
        if dialect.starts is None or dialect.starts.match(text):
            yield from _words(dialect, text)
        if piped := _PIPED_OUTPUT.fullmatch(text):
            yield Act(text, piped["command"])
        yield from _functions(text)
    for word in feeds:
        yield from _words(dialect, word.text)
        yield from _functions(word.text)


def _words(dialect: _Dialect, text: str) -> Iterator[Act]:
    for match in dialect.word.finditer(text):
        groups = match.groupdict()
        name, rest = groups["name"] or groups.get("letter") or "", groups["rest"]
        for backquoted in _BACKQUOTED.findall(rest) if "`" in rest else ():
            yield Act(match.group().strip(), backquoted)
        if dialect.runs.fullmatch(name):
            yield Act(match.group().strip(), rest.strip())
        elif piped := _PIPE.match(rest):
            yield Act(match.group().strip(), piped["command"].strip(" \"'"))
        elif not dialect.shows.fullmatch(name) or (name in {"g", "gx"} and rest.strip()):
            yield Act(match.group().strip())


def _functions(text: str) -> Iterator[Act]:
    if _ACTS.search(text):
        edited = _EDITS.search(text)
        yield Act(text, edited["command"] if edited else "")
