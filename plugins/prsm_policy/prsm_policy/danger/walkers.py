"""Which programs go through whole folders and show or hand on what is in them.

Searches, archivers, copiers, servers: for each of them which of its words may be the folders, and
what of these it reads. In doubt a word is one of them, and all is read.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from prsm_core.policies import UntoldError, part_of, word_set
from prsm_policy.danger.git_reads import git_walk
from prsm_policy.danger.walk import Walk, loosely_parsed, values_of
from prsm_policy.safe.reach import diff_reach, grep_reach, rg_reach
from prsm_policy.shell.program_arguments import ungnu
from prsm_policy.tree import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prsm_core.policies import Part
    from prsm_policy.shell import Command, Word

_GREPS = word_set("grep egrep fgrep zgrep bzgrep xzgrep zstdgrep pcregrep pcre2grep ggrep bsdgrep")
# They go through folders by themselves.
_SEARCHES = word_set("ag ack ack-grep rgrep ugrep ug sift pt ucg ast-grep rga sgrep hgrep batgrep")
# They print all that is in a folder, or look for secrets in it and print these.
_DUMPERS = word_set(
    "repomix repopack code2prompt files-to-prompt gitingest yek ingest aidigest gitleaks trufflehog"
    " noseyparker ripsecrets detect-secrets ggshield whispers"
)
_ARCHIVERS = word_set(
    "zip rar zpaq dar afio mksquashfs genisoimage mkisofs xorriso xorrisofs makeself"
    " makeself.sh shar asar wimcapture wimlib-imagex hdiutil tarsnap zipfile tarfile lrztar"
    " mkcramfs genromfs mkfs.erofs squashfs-tools dirsplit pixz hdiutil lha arj zoo ptar stpax"
)
_BACKUPS = word_set(
    "restic borg duplicity kopia bup rdiff-backup rsnapshot attic zbackup duplicacy rustic"
    " rclone gsutil s3cmd s5cmd azcopy b2 mc unison syncthing lsyncd csync casync desync"
)
_SERVERS = word_set(
    "http.server SimpleHTTPServer CGIHTTPServer pyftpdlib RangeHTTPServer uploadserver updog"
    " wsgidav livereload twisted.web sanic.http.server webdav httpserver sauth"
    " serve http-server live-server lite-server local-web-server ws browser-sync superstatic"
    " node-static static-server servor sirv sirv-cli anywhere reload budo light-server"
    " five-server alive-server zapier-server httpserver caddy darkhttpd miniserve dufs"
    " simple-http-server static-web-server sws basic-http-server sfz webfsd thttpd mini_httpd"
    " althttpd boa merecat devd algernon gohttpserver goshs filebrowser ran httplz woof qrcp droopy"
    " servefile twist twistd ghttpd gatling busybox-httpd fileserver goftp pure-ftpd uftpd"
    " bftpd ftpd tftpd in.tftpd atftpd httpd wishful svnserve ufw-httpd tiny-httpd ttyd-fs"
    " weborf webfs httpuploader http-file-server bozohttpd copyparty rejetto rubyhttpd"
)
# What they serve stands in a configuration, of the machine or of their own.
_CONFIGURED = word_set(
    "nginx lighttpd apache2 apachectl apache2ctl httpd2 h2o vsftpd proftpd smbd nmbd samba nfsd"
    " rpc.nfsd exportfs unfsd ganesha.nfsd sshd dropbear minidlnad sftp-server"
    " rsyncd openresty tengine"
    " angie varnishd haproxy-static"
)
_CHECKS_ONLY = word_set("-t -v -V -T -h --version --help --test configtest -S -M -l -L")
# Their last operand is where the copy goes.
_COPIERS = word_set("cp rsync ditto cpdup rclone-copy fpsync pcp xcopy robocopy scp sftp gcp")
_COMPRESSORS = word_set("gzip pigz zstd lz4 bzip2 pbzip2 xz brotli")
_CONTAINERS = word_set(
    "docker podman nerdctl finch buildah img lima docker-compose kaniko buildctl"
)
_BUILDS = word_set("build bud buildx builder image")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*|py")
_RECURSES = re.compile(r"-(?!-)[a-zA-Z]*[rRa][a-zA-Z]*|--(?:rec|arc|deref)[a-z-]*(?:=.*)?")
_TAR_MAKES = re.compile(r"-?[a-zA-Z]*[cruA][a-zA-Z]*")
_TAR_LONG = re.compile(r"--(?:create|append|update|catenate|concatenate)")
_LISTS = re.compile(r"(?:-[a-zA-Z]*T.*|--files-from(?:=.*)?)")
_TOLD_FROM_A_LIST = "it reads the files of a list that cannot be told"
_INPUT = frozenset({"-", "/dev/stdin"})
_GREP_NAMES = frozenset(
    {"-l", "-L", "-c", "-q", "--files-with-matches", "--files-without-match", "--count"}
    | {"--quiet", "--silent", "--files", "--count-matches", "--type-list"}
)
_GREP_LONG = word_set(
    "regexp file include exclude exclude-dir exclude-from after-context before-context context"
    " max-count binary-files devices directories label"
)
_RG_LONG = word_set(
    "glob iglob type type-not type-add type-clear max-count max-depth max-columns max-filesize"
    " context after-context before-context replace regexp file sort sortr encoding ignore-file"
    " threads engine color colors path-separator"
)


def walk_of(command: Command) -> Walk | None:
    """Return what a command reads of whole folders, None if it is not known to go through any."""
    find = _WALKS.get(ungnu(command.name))
    if find is not None:
        return find(command)
    return _python(command) if _PYTHON.fullmatch(command.name) else None


def is_walker(name: str) -> bool:
    """Return whether a program of that name may go through folders."""
    return ungnu(name) in _WALKS or _PYTHON.fullmatch(name) is not None


def _grep(command: Command) -> Walk | None:
    parsed = loosely_parsed(command.words[1:], "ABCefmdD", _GREP_LONG)
    is_whole = any(
        option in {"-d", "--directories"} and value.text == "recurse"
        for option, value in parsed.values
    )
    reach = grep_reach(parsed) or (Reach(follows=True) if is_whole else None)
    if reach is None or parsed.options & _GREP_NAMES:
        return None
    words = _behind_pattern(parsed.operands, parsed.options)
    return Walk(words=words, is_here=not words, reach=reach, searches=True)


def _rg(command: Command) -> Walk | None:
    parsed = loosely_parsed(command.words[1:], "ABCdegjmMrtTEf", _RG_LONG)
    reach = rg_reach(parsed)
    if parsed.options & _GREP_NAMES:
        return None
    if reach is None or reach.names_only:
        return Walk(words=parsed.operands, is_here=False, inside=False)
    if {"-.", "--unrestricted"} & parsed.options:
        reach = Reach(follows=reach.follows, narrow=reach.narrow)
    words = _behind_pattern(parsed.operands, parsed.options)
    is_here = not words and not command.behind
    return Walk(words=words, is_here=is_here, reach=reach, searches=True)


def _behind_pattern(operands: tuple[Word, ...], options: frozenset[str]) -> tuple[Word, ...]:
    return operands if options & {"-e", "-f", "--regexp", "--file"} else operands[1:]


def _search(command: Command) -> Walk | None:
    operands = tuple(word for word in command.words[1:] if word.text[:1] != "-")
    return Walk(words=operands[1:], is_here=not operands[1:], searches=True)


def _diff(command: Command) -> Walk | None:
    parsed = loosely_parsed(command.words[1:], "UCWIxFSX", frozenset())
    if not parsed.options & {"-r", "--recursive"}:
        return None
    reach = diff_reach(parsed)
    return None if reach is None else Walk(words=parsed.operands, is_here=False, reach=reach)


def _whole(command: Command) -> Walk:
    """Return a walk through each folder that is named, or where it runs."""
    words = command.words[1:]
    return Walk(words=tuple(values_of(words)), reach=_without(_excluded(words)))


def _named(command: Command) -> Walk:
    """Return a walk through each folder that is named."""
    words = command.words[1:]
    reach = _without(_excluded(words))
    return Walk(words=tuple(values_of(words)), is_here=False, reach=reach)


def _tar(command: Command) -> Walk | None:
    words = command.words[1:]
    texts = [word.text for word in words]
    short = [text for at, text in enumerate(texts) if at == 0 or text[:1] == "-" != text[1:2]]
    if not any(map(_TAR_MAKES.fullmatch, short)) and not any(map(_TAR_LONG.fullmatch, texts)):
        return None
    return _from_list(words) or _named(command)


def _from_list(words: Sequence[Word]) -> Walk | None:
    """Return a walk through what a list names, unless that is what comes in."""
    for word, following in pairwise((*words, *words[-1:])):
        if _LISTS.fullmatch(word.text):
            value = re.sub(r"^(?:--files-from=?|-[a-zA-Z]*T)", "", word.text) or following.text
            return None if value in _INPUT else Walk(always=_TOLD_FROM_A_LIST)
    return None


def _seven_zip(command: Command) -> Walk | None:
    return _named(command) if command.texts[1:2] in {("a",), ("u",)} else None


def _jar(command: Command) -> Walk | None:
    first = command.texts[1:2]
    makes = bool(first) and ("c" in first[0].lstrip("-") or "u" in first[0].lstrip("-"))
    return _named(command) if makes else None


def _copies(command: Command) -> Walk | None:
    words, texts = command.words[1:], command.texts[1:]
    if command.name == "cp" and not any(map(_RECURSES.fullmatch, texts)):
        return None
    if command.name == "rsync" and (listed := _from_list(words)):
        return listed
    operands = [word for word in words if word.text[:1] != "-"]
    has_target = any(text.startswith(("-t", "--t")) for text in texts if command.name == "cp")
    sources = operands if has_target else operands[:-1]
    return Walk(words=tuple(sources), is_here=False, reach=_without(_excluded(words)))


def _compresses(command: Command) -> Walk | None:
    is_deep = any(re.fullmatch(r"-(?!-)[a-zA-Z]*r[a-zA-Z]*|--rec[a-z]*", t) for t in command.texts)
    return _named(command) if is_deep else None


def _containers(command: Command) -> Walk | None:
    """Return a walk through what a container, or the image of one, is given."""
    texts = command.texts[1:4]
    if _BUILDS.isdisjoint(texts) and "cp" not in texts and "add" not in texts:
        return None
    return Walk(words=tuple(values_of(command.words[1:])), is_here=False, inside=False)


def _php(command: Command) -> Walk | None:
    return _whole(command) if any(text.startswith("-S") for text in command.texts) else None


def _caddy(command: Command) -> Walk | None:
    if not {"run", "start", "reload"}.isdisjoint(command.texts[1:2]):
        return _configured(command)
    return _whole(command) if command.texts[1:2] == ("file-server",) else None


def _configured(command: Command) -> Walk | None:
    if not _CHECKS_ONLY.isdisjoint(command.texts[1:]):
        return None
    return Walk(always="it serves the folders that its configuration names")


def _python(command: Command) -> Walk | None:
    """Return what a module of python reads that is a program of the table."""
    for at, text in enumerate(command.texts[1:], start=1):
        if not text.startswith("-"):
            return None
        if text[1:2] != "-" and "m" in text:
            module = text.partition("m")[2]
            rest = command.words[at + 1 :] if module else command.words[at + 2 :]
            name = module or "".join(command.texts[at + 1 : at + 2])
            if name not in _MODULES:
                return None
            return Walk(words=tuple(values_of(rest)), is_here=name in _SERVERS | _DUMPERS)
    return None


_MODULES = _SERVERS | _DUMPERS | word_set("zipfile tarfile twisted http")
_EXCLUDES = re.compile(r"--exclude=(?P<value>.+)|-x!?r?!(?P<seven>.+)|-xr!(?P<deep>.+)")


def _excluded(words: Sequence[Word]) -> Iterable[str]:
    """Yield the patterns of names that are surely left out, in whatever folder they are."""
    texts = [word.text for word in words if not word.glob]
    for text, following in pairwise((*texts, "")):
        if match := _EXCLUDES.fullmatch(text):
            yield match["value"] or match["deep"] or ""
        elif text == "--exclude":
            yield following
    if "-x" in texts:  # of zip: for whole paths, so that a star stands for folders, too
        yield from (text for text in texts[texts.index("-x") + 1 :] if text[:1] == "*")


def _without(patterns: Iterable[str]) -> Reach:
    parts: list[Part] = []
    for pattern in patterns:
        try:
            parts += [part_of(pattern)] if pattern and "/" not in pattern else []
        except UntoldError:
            continue
    return Reach(leaves_out=tuple(parts))


_WALKS: Mapping[str, Callable[[Command], Walk | None]] = {
    **dict.fromkeys(_GREPS, _grep),
    "rg": _rg,
    **dict.fromkeys(_SEARCHES, _search),
    "diff": _diff,
    **dict.fromkeys(_DUMPERS | _SERVERS, _whole),
    **dict.fromkeys(_ARCHIVERS | _BACKUPS, _named),
    **dict.fromkeys(_CONFIGURED, _configured),
    **dict.fromkeys(word_set("tar bsdtar star pax"), _tar),
    **dict.fromkeys(word_set("7z 7za 7zr 7zz"), _seven_zip),
    "jar": _jar,
    **dict.fromkeys(_COPIERS, _copies),
    **dict.fromkeys(_COMPRESSORS, _compresses),
    **dict.fromkeys(_CONTAINERS, _containers),
    "php": _php,
    "caddy": _caddy,
    "git": git_walk,
}
