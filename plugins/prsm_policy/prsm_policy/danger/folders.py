"""Reads of whole folders: which programs make them, and where secrets lie in what is read.

Folders of the workspace are looked through (`tree`), so that one without secrets is no danger. Of
folders outside some are guarded whatever lies there: homes, the machine's secrets, and all above
them. The others are looked through as well. In doubt a word names a folder, and all is read.
"""

from __future__ import annotations

import dataclasses
import os
import re
from contextlib import suppress
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.policies import (
    HOME_PLACES,
    SYSTEM_PLACES,
    UntoldError,
    is_within,
    moved_places,
    part_of,
    secret_part,
    word_set,
)
from prsm_policy.danger.git import behind_globals
from prsm_policy.danger.places import SPEAKERS, WRITERS
from prsm_policy.expansion import expand
from prsm_policy.places import MAX_PATH, MAX_PATHS
from prsm_policy.safe.git import shows_untracked
from prsm_policy.safe.options import Parsed
from prsm_policy.safe.producers import names_of_find, simple_pattern
from prsm_policy.safe.reach import diff_reach, grep_reach, rg_reach
from prsm_policy.safe.tools import READ_ONLY
from prsm_policy.secret_names import may_match_secret, may_show_secret
from prsm_policy.shell.find_nested import ungnu
from prsm_policy.shell.words import Word, bare
from prsm_policy.tree import Bounds, Reach, TreeIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.policies import Part
    from prsm_policy.places import Place
    from prsm_policy.shell import Command, Script

    Reader = Callable[[Command], "Walk | None"]
_SECONDS = 0.008  # CPU time for the folders that one decision looks at once more
_SLASHES = re.compile(r"^//+")
_WILD = re.compile(r"[*?\[{]")
# A word that may lead out of the workspace, or that is a pattern.
_FAR = re.compile(r"(?:^|[=,]|^-[A-Za-z])[/~]|(?:^|[/=])\.\.(?:/|$)")
# They show which files there are, how large and of what kind, or change them; not what is in them.
NAMES_ONLY = SPEAKERS | word_set(
    "ls dir vdir ll exa eza lsd tree du df dust dua duf ncdu gdu stat file wc cksum sum md5sum"
    " sha1sum sha224sum sha256sum sha384sum sha512sum b2sum realpath readlink basename dirname cd"
    " pushd popd mkdir rmdir rm mv touch chmod chown chgrp ln unlink which type command whereis"
    " namei mountpoint findmnt lsattr getfattr getfacl lsof fuser inotifywait cloc tokei scc"
    " pathchk locate updatedb sync restorecon let read export declare typeset local readonly alias"
    " set unset shift test [ [[ z zoxide umask pwd ps top htop id kill cmp"
)
# What `/` means to them is no folder, or one on another machine or in a container.
_NO_FOLDERS = WRITERS | word_set(
    "awk gawk mawk nawk sed gsed tr cut sort uniq xargs paste join column split csplit fold fmt"
    " numfmt look nl pr read mapfile readarray make gmake curl wget http https xh gh glab npm pnpm"
    " yarn git find fd fdfind ssh ping dig host psql mysql env timeout nice nohup time stdbuf"
    " setsid ionice bash sh dash zsh logger notify-send cmake configure gcc g++ cc clang clang++"
    " ld pkg-config ab wrk hey siege ng vite"
)
_ELSEWHERE = word_set("exec run shell rsh ssh attach start --")
_RUN_ELSEWHERE = word_set("docker podman nerdctl docker-compose kubectl oc lxc incus")
# Options whose slash is the beginning of an address.
_ADDRESS = re.compile(
    r"--?[\w-]{0,40}(?:base|url|uri|href|prefix|route|public-path|context|scope|sep|delim|endpoint"
    r"|location|mount|pathname)[\w-]{0,40}",
    re.IGNORECASE,
)
_FINDERS = word_set("fd fdfind locate plocate tree ls rg grep egrep fgrep du")
_SPEAK = word_set("echo printf ls set")
# The words of a loop, or of an array.
_LISTED = re.compile(r"(?:\bin[ \t]+|=\()([^;\n()]*)")
_LEADING_CD = re.compile(r"\s*cd[ \t]+([\w./@+-]+)[ \t]*(?:&&|;|\n)")
_LISTERS = word_set("cpio afio pax ptar")  # they read the files whose names come in
_READS_LIST = re.compile(r"-T-?|--files-from=-|-@|-[a-zA-Z]*T|--null|--files0-from=-")
_SHOWS_HIDDEN = re.compile(r"-[a-zA-Z]*[aAHu.][a-zA-Z]*|--(?:all|almost-all|hidden|no-ignore)")
_RUNS_OWN = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_FIND_ENDS = frozenset({";", "+"})
_HIDDEN_PATHS = frozenset({"*/.*", "./.*", ".*", "*/.*/*"})
# Homes of whom they belong to, and where processes, services and other disks have their files.
_HOMES = re.compile(r"/(?:(?:export/|usr/)?home|Users)(?:/[^/]+)?|/root|/var/root")
_SYSTEM = re.compile(r"/|/(?:var/)?run(?:/(?:user|secrets|credentials))?|/mnt|/media|/Volumes")
_WITHIN_SYSTEM = re.compile(r"/proc(?:/|$)|/(?:var/)?run/(?:user|secrets|credentials)/")
# Everybody can have what a distribution or a package manager puts there.
_PUBLIC = re.compile(r"/(?:usr|lib(?:32|64|x32)?|s?bin|nix/store|opt/homebrew/Cellar)(?:/|$)")
_NOT_PUBLIC = re.compile(r"/usr/(?:home|local/(?:etc|var))(?:/|$)|/usr$|/usr/local$")
_PUBLIC_IN_HOME = (
    ".cargo/registry", ".cargo/git/checkouts", ".rustup/toolchains", "go/pkg/mod",
    ".pyenv/versions", ".nvm/versions", ".m2/repository", ".gradle/caches", ".rbenv/versions",
    ".sdkman/candidates", ".cache/pip", ".cache/go-build", ".npm/_cacache",
)  # fmt: skip
# They show what files hold, or held, in whatever folder they are told to look.
_SHOWS = word_set(
    "show diff grep blame annotate cat-file archive stash format-patch bundle whatchanged"
    " range-diff diff-tree diff-index diff-files fast-export log rev-list"
)
_PATCH = re.compile(
    r"-(?:[a-zA-Z]*[pu][a-zA-Z]*|U\d+|[cm]+|[SGL].*|-patch.*|-unified.*|-raw-patch|-full-diff)"
)
_COPIES = word_set("clone fetch pull submodule subtree")
_NAMES_ONLY = re.compile(
    r"-[a-zA-Z]*[lLcq][a-zA-Z]*|--(?:files-with(?:out)?-match(?:es)?|name-only|name-status|count"
    r"|quiet|stat.*|shortstat|numstat)"
)
_GREP_VALUED, _GIT_GREP_LONG = "ABCefmO", word_set("max-depth max-count threads context")
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
_MODULES = _SERVERS | _DUMPERS | word_set("zipfile tarfile twisted http")
_EXCLUDES = re.compile(r"--exclude=(?P<value>.+)|-x!?r?!(?P<seven>.+)|-xr!(?P<deep>.+)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Which folders a command goes through, and what of them it shows or hands on.

    `words` may name them; if none does and `is_here`, it is where the command runs. What only
    `searches` may go through a tree of the workspace that is too large to be looked through.
    Without `inside` only folders outside the workspace matter; with `is_foreign` any of those
    does. `always` says why it is dangerous wherever it reads.
    """

    words: tuple[Word, ...] = ()
    is_here: bool = True
    reach: Reach = dataclasses.field(default_factory=Reach)
    searches: bool = False
    inside: bool = True
    is_foreign: bool = False
    always: str | None = None


def _loosely_parsed(words: Sequence[Word], valued: str, valued_long: frozenset[str]) -> Parsed:
    """Return words taken apart; options that are not known take no value."""
    options: set[str] = set()
    operands: list[Word] = []
    values: list[tuple[str, Word]] = []
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--":
            operands += rest
        elif text[:2] == "--":
            name, equals, value = text.partition("=")
            options.add(name)
            if equals:
                values.append((name, word.told(value)))
            elif name[2:] in valued_long and (following := next(rest, None)) is not None:
                values.append((name, following))
        elif text[:1] == "-" and len(text) > 1:
            for at, letter in enumerate(text[1:], start=2):
                options.add(f"-{letter}")
                if letter in valued:
                    value_word = word.told(text[at:]) if text[at:] else next(rest, None)
                    if value_word is not None:
                        values.append((f"-{letter}", value_word))
                    break
        else:
            operands.append(word)
    return Parsed(frozenset(options), tuple(operands), tuple(values))


def values_of(words: Sequence[Word]) -> Iterator[Word]:
    """Yield what may be a path: operands, and values in the word of their option."""
    for word in words:
        text = word.text
        name, equals, value = text.partition("=")
        if equals and value and not name.startswith("--exclude"):
            yield word.told(value)
        if text[:1] != "-":
            yield word
        elif text[1:2] not in {"", "-"} and text[2:3] in {"/", ".", "~"}:
            yield word.told(text[2:])  # attached to its letter


def folder_danger(command: Command, place: Place) -> str | None:
    """Return why what a command reads of folders makes it dangerous."""
    reason = None
    if (walk := _walk_of(command)) is not None:
        reason = _Look(place).why_not(walk)
    elif any(_FAR.search(text) for text in command.texts[1:]) and _may_read(command):
        words = values_of(command.words[1:])
        reason = next(filter(None, (_guarded(word, command, place) for word in words)), None)
    if reason is None and command.name not in NAMES_ONLY:
        return _pattern_danger(command.words[1:], place)
    return reason


def flow_danger(script: Script, place: Place, text: str = "") -> str | None:
    """Return why another command, or a loop in `text`, must not read what one command finds."""
    if "HOME" in script.variables and (reason := _home_danger(script, place)) is not None:
        return reason
    if not any(map(_takes_names, script.commands)):
        return None
    look = _Look(place)
    for command in script.commands:
        walk = _found_by(command, place)
        if walk is not None and (reason := look.why_not(walk)) is not None:
            return reason
    speakers = (command for command in script.commands if command.name in _SPEAK)
    spoken = [word for command in speakers for word in command.words[1:]]
    listed = (raw for found in _LISTED.finditer(text) for raw in found[1].split())
    spoken += [bare(raw) for raw in islice(listed, MAX_PATHS)]
    if any(secret_part(word.text) or may_show_secret(word.pattern) for word in spoken):
        return "a secret file is named for another command"
    return _pattern_danger(spoken, place)


def _home_danger(script: Script, place: Place) -> str | None:
    """Return why a program that may read its arguments is given a folder below $HOME."""
    paths = (
        (command, Word(f"{own_home()}{word.text}"))
        for command in filter(_may_read, script.commands)
        for word in command.words[1:]
        if not word.exact
    )
    return next(filter(None, (_guarded(path, command, place) for command, path in paths)), None)


def place_of(script: Script, place: Place, text: str) -> Place:
    """Return where the commands of a text run: elsewhere if it begins by changing folders."""
    names = [command.name for command in script.commands]
    moves = [command for command in script.commands if command.name == "cd"]
    found = _LEADING_CD.match(text) if moves and names[0] == "cd" else None
    if found is not None and not script.functions and len(place.folders) == 1:
        target = os.path.realpath(Path(place.folders[0], found[1]))
        if is_within(target, place.root) and _is_folder(target):
            place, moves = dataclasses.replace(place, elsewhere=(target,)), moves[1:]
    for command in moves:
        place = (len(command.words) == 2 and place.entered(command.words[1])) or place
    return place


def _may_read(command: Command) -> bool:
    """Return whether a program that is not known to walk may read a folder that it is told."""
    name = ungnu(command.name)
    if name in NAMES_ONLY or name in _NO_FOLDERS or name in READ_ONLY or not name:
        return False
    return _ELSEWHERE.isdisjoint(command.texts[1:4]) and command.via not in _RUN_ELSEWHERE


def _guarded(word: Word, command: Command, place: Place) -> str | None:
    """Return why a program that may do anything with a folder must not get it."""
    if not _FAR.search(word.text) or not word.exact:
        return None
    if word.text == "/" and any(
        _ADDRESS.fullmatch(text.partition("=")[0])
        and (text.endswith("=/") or command.texts[at + 1 : at + 2] == ("/",))
        for at, text in enumerate(command.texts)
    ):
        return None
    for path in _meanings(word, place):
        if not is_within(path, place.root) and (reason := _why_not_whole(path)) is not None:
            return reason
    return None


def _why_not_whole(path: str) -> str | None:
    """Return why a path is not read whole; what is surely a file is none."""
    reason = why_guarded(path)
    is_file = reason is not None and os.path.isfile(path)  # noqa: PTH113 - a Path may raise
    return None if is_file else reason


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises where it may not look


def _meanings(word: Word, place: Place) -> Iterator[str]:
    """Yield where a word leads, as it is written and with its links followed."""
    text = _home_expanded(word.text)
    if not text or len(text) > MAX_PATH or "\0" in text:
        return
    for folder in place.folders:
        path = os.path.normpath(Path(folder, text))
        yield _SLASHES.sub("/", path)
        resolved = _resolved(path) if place.looks.spend() else path
        if resolved != path:
            yield resolved


def _home_expanded(text: str) -> str:
    return os.path.expanduser(text)  # noqa: PTH111 - a Path raises for users it does not know


def _resolved(path: str) -> str:
    """Return where a path leads; what cannot be followed, as in /proc, is itself."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


class _Look:
    """Looks at the folders that the commands of one decision read whole."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._bounds = Bounds(seconds=_SECONDS)

    def why_not(self, walk: Walk) -> str | None:
        """Return what speaks against a walk, None if nothing does."""
        if walk.always is not None:
            return walk.always
        if len(walk.words) > MAX_PATHS:
            return "it reads more folders than are looked at"
        try:
            folders = dict.fromkeys(self._folders(walk.words))
        except UntoldError as error:
            return str(error)
        if not folders and walk.is_here:
            folders = dict.fromkeys(self._place.folders)
        reasons = (self._why_not_folder(folder, walk) for folder in folders)
        reason = next(filter(None, reasons), None)
        return None if reason is None else f"it reads the whole folder, and {reason}"

    def _folders(self, words: Iterable[Word]) -> Iterator[str]:
        for word in words:
            for name in _filled(word, self._place):
                yield from filter(self._may_be_folder, _meanings(name, self._place))

    def _may_be_folder(self, path: str) -> bool:
        is_guarded = _why_not_whole(path) is not None and not self._is_inside(path)
        return is_guarded or _is_folder(path)

    def _is_inside(self, path: str) -> bool:
        return is_within(path, self._place.root)

    def _why_not_folder(self, path: str, walk: Walk) -> str | None:
        place = self._place
        if self._is_inside(path):
            if not walk.inside:
                return None
            index = place.looks.trees.of(place.root)
            reason = index.why_not([path], walk.reach, self._bounds)
            is_large = reason is not None and self._bounds.are_spent()
            return None if is_large and walk.searches else reason
        if place.looks.own is not None and place.looks.own.is_handed(path):
            return None
        if walk.is_foreign:
            return f"{path} lies outside the workspace"
        if (reason := why_guarded(path)) is not None or is_public(path):
            return reason
        return TreeIndex(path).why_not([path], replace(walk.reach, follows=False), self._bounds)


def _filled(word: Word, place: Place) -> Iterable[Word]:
    """Return what a word stands for: itself, or what is there for a pattern."""
    if not word.glob or not word.exact or word.found is not None:
        return (word,)
    return [Word(hit) for hit in _hits(word, place)] or (word,)


def _hits(word: Word, place: Place) -> list[str]:
    """Return the full paths that a pattern stands for; raise UntoldError if it is too much."""
    pattern = word.pattern or word.text
    if pattern.startswith("~"):
        home, slash, rest = pattern.partition("/")
        pattern = _home_expanded(home) + slash + rest
    wild = _WILD.search(pattern)
    fixed = pattern[: wild.start()] if wild is not None else pattern
    head, slash, _ = fixed.rpartition("/")
    if slash and not head:
        raise UntoldError("the pattern stands for folders of the system")
    tail = pattern[len(head) + len(slash) :]
    paths: dict[str, None] = {}
    for folder in place.folders:
        base = _resolved(str(Path(folder, head.replace("\\", ""))))
        if is_public(base):
            continue
        try:
            hits = expand(tail, base, "/", place.looks.sight)
        except OSError as error:
            raise UntoldError("it cannot be told what the pattern stands for") from error
        for hit in hits:
            for path in (hit.resolved, f"{base}/{hit.text}"):
                paths[_SLASHES.sub("/", path)] = None
    return list(paths)


def _pattern_danger(words: Iterable[Word], place: Place) -> str | None:
    """Return why a pattern may stand for a secret, as the folders are and by its own text."""
    home = own_home()
    for word in words:
        if not word.glob or not word.exact:
            continue
        text = word.pattern or word.text
        if home and text.startswith(("/home/", "/root/", "/Users/", f"{home}/")):
            inside = is_within(text.rstrip("*"), place.root)
            if not inside and may_match_secret(text):
                return f"{word.text!r} may stand for a secret file"
        try:
            hits = _hits(word, place)
        except UntoldError as error:
            return f"{word.text!r}: {error}"
        for hit in hits:
            shown = hit[len(place.root) :] if is_within(hit, place.root) else hit
            is_guarded = shown == hit and (why_guarded(hit) or "").endswith("may hold secrets")
            if secret_part(shown) is not None or is_guarded:
                return f"{word.text!r} stands for {shown}, which may hold a secret"
    return None


def _takes_names(command: Command) -> bool:
    """Return whether a command reads files whose names it gets from another."""
    name = ungnu(command.name)
    if name in _LISTERS or any(map(_READS_LIST.fullmatch, command.texts[1:])):
        return name in _LISTERS or _is_walker(name)
    if name in NAMES_ONLY or name in {"xargs", "git", "find", "fd", "fdfind", ""}:
        return False
    is_handed = command.via in {"xargs", "find", "gfind", "fd", "fdfind", "parallel"}
    return is_handed or any(not word.exact for word in command.words[1:])


def _found_by(command: Command, place: Place) -> Walk | None:
    name, words = ungnu(command.name), command.words[1:]
    if name == "find":
        return _find(words, place)
    if name == "git":
        lists = command.texts[1:2] == ("ls-files",)
        others = lists and any(re.fullmatch(r"-[a-z]*o[a-z]*|--others", t) for t in command.texts)
        return Walk(words=tuple(words[1:]), searches=True) if others else None
    if name not in _FINDERS:
        return None
    is_hidden = any(map(_SHOWS_HIDDEN.fullmatch, command.texts[1:]))
    operands = tuple(word for word in words if word.text[:1] != "-")
    reach = Reach(hidden=is_hidden or name in {"grep", "egrep", "fgrep", "du"})
    return Walk(words=operands, reach=reach, searches=True)


def _find(words: Sequence[Word], place: Place) -> Walk:
    roots: list[Word] = []
    rest = list(words)
    while rest and rest[0].text[:1] not in {"-", "(", "!"}:
        roots.append(rest.pop(0))
    texts = [word.text for word in rest]
    skips_hidden = any(
        negation in {"!", "-not"}
        and test in {"-path", "-name", "-wholename"}
        and name in _HIDDEN_PATHS
        for negation, test, name in zip(texts, texts[1:], texts[2:], strict=False)
    )
    narrow: tuple[Part, ...] = ()
    with suppress(UntoldError):
        narrow = tuple(map(part_of, _find_patterns(rest, place)))
    follows = "-L" in texts or "-follow" in texts
    reach = Reach(hidden=not skips_hidden, narrow=narrow, follows=follows)
    return Walk(words=tuple(roots), is_here=not roots, reach=reach, searches=True)


def _find_patterns(rest: Sequence[Word], place: Place) -> tuple[str, ...]:
    """Return patterns one of which each name that is found matches, nothing if there are none."""
    kept: list[Word] = []
    words = iter(rest)
    for word in words:
        if word.text in _RUNS_OWN:
            for inner in words:
                if inner.text in _FIND_ENDS:
                    break
            kept.append(Word("-true"))
        elif not (word.text in _FIND_ENDS or word.text in {"-L", "-H", "-P", "-follow"}):
            kept.append(word)
    names = names_of_find(kept, place)
    patterns = (names.patterns if names is not None else None) or ()
    return patterns if all(map(simple_pattern, patterns)) else ()


def own_home() -> str:
    """Return the home folder of the user, "" where there is none that tells anything."""
    home = os.path.normpath(_home_expanded("~"))
    return "" if home in {"/", "~", "."} else home


def why_guarded(path: str) -> str | None:
    """Return why a folder, by its absolute normalized path, is not read as a whole."""
    home = own_home()
    if path == home:
        return f"{path} is a home folder"
    places, above = _places(home, tuple(moved_places(os.environ)))
    if path in above or _SYSTEM.fullmatch(path) or _WITHIN_SYSTEM.match(path):
        return f"secrets lie below {path}"
    if any(parent in places for parent in (path, *_parents(path))):
        return f"{path} may hold secrets"
    found = _HOMES.match(path)
    if found is not None and not (home and is_within(path, home)):
        is_home = len(path) == found.end() or path[found.end()] == "/"
        return f"{path} is in a home folder of another user" if is_home else None
    return None


def is_public(path: str) -> bool:
    """Return whether everybody can have what is in a folder: an absolute, normalized path."""
    if _PUBLIC.match(path):
        return _NOT_PUBLIC.match(path) is None
    home = own_home()
    return bool(home) and any(is_within(path, f"{home}/{each}") for each in _PUBLIC_IN_HOME)


@lru_cache(8)
def _places(home: str, moved: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    own = tuple(f"{home}/{place}" for place in HOME_PLACES) if home else ()
    places = frozenset((*own, *moved, *SYSTEM_PLACES))
    above = {parent for place in (*places, *filter(None, [home])) for parent in _parents(place)}
    return places, frozenset(above)


def _parents(path: str) -> tuple[str, ...]:
    return tuple(map(str, PurePosixPath(path).parents))


def _git_walk(command: Command) -> Walk | None:
    """Return what git reads of folders, None if it is the history of the workspace."""
    moves, words = behind_globals(command.words[1:])
    if not words:
        return None
    name, arguments = words[0].text, words[1:]
    texts = [word.text for word in arguments]
    if shows_untracked([name, *texts]):
        return Walk(always="it shows what git does not know: files in a stash may hold secrets")
    found = _walk(name, arguments, texts)
    if not moves or not _shows_files(name, texts):
        return found
    others = found.words if found is not None else ()
    return Walk(words=(*moves, *others), is_here=False, inside=found is not None, is_foreign=True)


def _walk(name: str, arguments: Sequence[Word], texts: Sequence[str]) -> Walk | None:
    if name in _COPIES:
        sources = [word for word in arguments if word.text[:1] != "-"]
        return Walk(words=tuple(sources), is_here=False, inside=False)
    if any(map(_NAMES_ONLY.fullmatch, texts)):
        return None
    if name == "grep" and {"--no-index", "--untracked"} & set(texts):
        parsed = _loosely_parsed(arguments, _GREP_VALUED, _GIT_GREP_LONG)
        words = _behind_pattern(parsed.operands, parsed.options)
        return Walk(words=words, is_here=not words, searches=True)
    if name == "diff":
        compared = tuple(word for word in arguments if word.text[:1] != "-")
        is_whole = "--no-index" in texts
        # Outside a repository, or for a path that leads out of it, it compares any two folders.
        return Walk(words=compared, is_here=False, inside=is_whole, reach=Reach(follows=is_whole))
    return None


def _shows_files(name: str, texts: Sequence[str]) -> bool:
    """Return whether a subcommand shows what files hold, and not only which there are."""
    if name not in _SHOWS or (name == "stash" and "show" not in texts[:1]):
        return False
    is_short = name in {"log", "rev-list"} or any(map(_NAMES_ONLY.fullmatch, texts))
    return not is_short or any(map(_PATCH.fullmatch, texts))


def _walk_of(command: Command) -> Walk | None:
    python = _python if _PYTHON.fullmatch(command.name) else None
    find = _WALKS.get(ungnu(command.name), python)
    return find(command) if find is not None else None


def _is_walker(name: str) -> bool:
    return ungnu(name) in _WALKS or _PYTHON.fullmatch(name) is not None


def _grep(command: Command) -> Walk | None:
    parsed = _loosely_parsed(command.words[1:], "ABCefmdD", _GREP_LONG)
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
    parsed = _loosely_parsed(command.words[1:], "ABCdegjmMrtTEf", _RG_LONG)
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
    parsed = _loosely_parsed(command.words[1:], "UCWIxFSX", frozenset())
    if not parsed.options & {"-r", "--recursive"}:
        return None
    reach = diff_reach(parsed)
    return None if reach is None else Walk(words=parsed.operands, is_here=False, reach=reach)


def _when(walk: Reader, shape: str, most: int | None = None) -> Reader:
    """Return a reader of a program that walks if one of its first arguments has this shape."""
    fits = re.compile(shape).fullmatch
    return lambda command: walk(command) if any(map(fits, command.texts[1:most])) else None


def _whole(command: Command) -> Walk:
    return dataclasses.replace(_named(command), is_here=True)


def _named(command: Command) -> Walk:
    words = command.words[1:]
    return Walk(words=tuple(values_of(words)), is_here=False, reach=_left_out(words))


def _outside(command: Command) -> Walk:
    """Return a walk through each folder that is named and lies outside the workspace."""
    return Walk(words=tuple(values_of(command.words[1:])), is_here=False, inside=False)


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


def _copies(command: Command) -> Walk | None:
    words, texts = command.words[1:], command.texts[1:]
    if command.name == "cp" and not any(map(_RECURSES.fullmatch, texts)):
        return None
    if command.name == "rsync" and (listed := _from_list(words)):
        return listed
    operands = [word for word in words if word.text[:1] != "-"]
    has_target = any(text.startswith(("-t", "--t")) for text in texts if command.name == "cp")
    sources = operands if has_target else operands[:-1]
    return Walk(words=tuple(sources), is_here=False, reach=_left_out(words))


def _configured(command: Command) -> Walk | None:
    is_check = not _CHECKS_ONLY.isdisjoint(command.texts[1:])
    return None if is_check else Walk(always="it serves the folders that its configuration names")


def _caddy(command: Command) -> Walk | None:
    if command.texts[1:2] == ("file-server",):
        return _whole(command)
    is_server = not {"run", "start", "reload"}.isdisjoint(command.texts[1:2])
    return _configured(command) if is_server else None


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


def _left_out(words: Sequence[Word]) -> Reach:
    """Return a reach without the names that are surely left out, in whatever folder they are."""
    texts = [word.text for word in words if not word.glob]
    patterns: list[str] = []
    for text, following in pairwise((*texts, "")):
        if match := _EXCLUDES.fullmatch(text):
            patterns.append(match["value"] or match["deep"] or "")
        elif text == "--exclude":
            patterns.append(following)
    if "-x" in texts:  # of zip: for whole paths, so that a star stands for folders, too
        patterns += [text for text in texts[texts.index("-x") + 1 :] if text[:1] == "*"]
    parts: list[Part] = []
    for pattern in patterns:
        with suppress(UntoldError):
            parts += [part_of(pattern)] if pattern and "/" not in pattern else []
    return Reach(leaves_out=tuple(parts))


_WALKS: Mapping[str, Reader] = {
    **dict.fromkeys(_GREPS, _grep),
    "rg": _rg,
    **dict.fromkeys(_SEARCHES, _search),
    "diff": _diff,
    **dict.fromkeys(_DUMPERS | _SERVERS, _whole),
    **dict.fromkeys(_ARCHIVERS | _BACKUPS, _named),
    **dict.fromkeys(_CONFIGURED, _configured),
    **dict.fromkeys(word_set("tar bsdtar star pax"), _tar),
    **dict.fromkeys(word_set("7z 7za 7zr 7zz"), _when(_named, "[au]", 2)),
    "jar": _when(_named, ".*[cu].*", 2),
    **dict.fromkeys(_COPIERS, _copies),
    **dict.fromkeys(_COMPRESSORS, _when(_named, r"-(?!-)[a-zA-Z]*r[a-zA-Z]*|--rec[a-z]*")),
    # What a container, or the image of one, is given.
    **dict.fromkeys(_CONTAINERS, _when(_outside, "build|bud|buildx|builder|image|cp|add", 4)),
    "php": _when(_whole, "-S.*"),
    "caddy": _caddy,
    "git": _git_walk,
}
