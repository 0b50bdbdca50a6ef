"""What programs are told that makes them run code or other programs: a table by their manuals.

A row is the names of programs, and below them what of their arguments runs:

    code    options whose value is code of the program's own language, or what it loads and runs
    runs    options whose value is a program or a command line
    verbs   words of the program's own that stand before code
    word    patterns of whole arguments that run something by themselves
    value   the same, where the command line stands behind the sign that sets something

The value of an option of one letter may be attached (`-ecode`), and may stand behind other letters
of the same word (`-ne code`). All others have it behind `=` or `:`, or as the next word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_policy.shell.words import Word

TOOLS = r"""
vim vi nvim view vimdiff gvim ex rvim rview
    code -c --cmd -S -s -u -U -i --remote-expr --remote-send
    word \+.+
less more most
    code --lesskey-content --lesskey-src
    word \+[\s\S]*[!|&].*
man
    runs -P --pager -H --html --preprocessor
bat batcat
    runs --pager
nano
    runs -s --speller
ed red
    word !.*
kak helix hx micro joe
    code -e -E
gdb
    code -ex -eval-command --eval-command -iex --init-eval-command -x --command -ix -command
lldb
    code -o --one-line -O --one-line-before-file -s --source -S --source-before-file
    code -k --one-line-on-crash
strace ltrace truss
    runs -o --output
perf
    code -s --script
bpftrace stap dtrace
    code -e -n -c -s
    word --unsafe|-w
screen
    code -X
xterm rxvt urxvt konsole gnome-terminal kitty alacritty st terminator foot wezterm tilix
    runs -e -x --command --execute
tcpdump
    runs -z --postrotate-command
tshark wireshark dumpcap
    code -X --lua-script
fzf sk
    runs --preview --bind --with-shell
    word --listen.*
broot ranger nnn lf mc vifm yazi
    code -c --cmd --command -command
7z 7za 7zr p7zip
    word -sfx.*
zip
    runs -TT --unzip-command
cpio
    runs --rsh-command --rmt-command
scp sftp ssh
    runs -S -D
    code -F
    value (?:-o)?(?:ProxyCommand|LocalCommand|KnownHostsCommand|XAuthLocation)[=\s].*
    word (?:-o)?(?:PermitLocalCommand|PKCS11Provider|SecurityKeyProvider|Include)[=\s].*
ssh-keygen ssh-add ssh-agent ssh-keyscan
    code -D -S
curl
    code -K --config --engine
    word --(?:abstract-)?unix-socket.*
wget
    runs --use-askpass
    code -e --execute --config
aria2c
    runs --on-download-complete --on-download-start --on-download-error --on-download-stop
    runs --on-download-pause --on-bt-download-complete
    code --conf-path
yt-dlp youtube-dl
    runs --exec --exec-before-download --external-downloader --downloader --netrc-cmd
    code --config-location --config-locations --plugin-dirs --ffmpeg-location
lftp ftp
    code -e -c
socat socat1
    value (?:.*,)?(?:EXEC|SYSTEM|SHELL)[:=].*
nc ncat netcat
    runs -e -c --exec --sh-exec
    code --lua-exec
nmap
    code --script --script-args --script-args-file --datadir
openssl
    code -engine -provider -provider-path
    verbs engine
gpg gpg2 gpgsm gpg-agent dirmngr
    runs --gpg-program --agent-program --dirmngr-program --keyboxd-program --pinentry-program
    runs --photo-viewer --exec-path --scdaemon-program --hook
openvpn
    runs --up --down --route-up --ipchange --tls-verify --client-connect --learn-address
    runs --auth-user-pass-verify --iproute
    code --config --plugin
pppd
    runs connect pty init disconnect
    code plugin file call
dhclient udhcpc
    runs -sf -s --script
hg
    code --config --config-file
    verbs debugshell
svn svnadmin svnlook
    runs --editor-cmd --diff-cmd --diff3-cmd --merge-cmd
    code --config-dir --config-option
bzr brz fossil darcs
    runs --diff-command --editor --using --test-command
    verbs shell
ag ack
    runs --pager
    code --ackrc
ctags etags
    code --options --optlib-dir --options-maybe
pandoc
    code -F --filter -L --lua-filter -d --defaults
    runs --pdf-engine
tex latex pdftex pdflatex xelatex luatex lualatex latexmk
    code -e -lua --lua
    runs -pdflatex -latex
    word --?(?:shell-escape|enable-write18)|[\s\S]*\\(?:write18|directlua|input\s*\|)[\s\S]*
gs ghostscript
    code -c
    word -d(?:NOSAFER|DELAYSAFER)
exiftool
    code -if -config
mpv vlc mplayer
    code --script --scripts --load-scripts --input-conf
blender gimp inkscape libreoffice soffice
    code --python -P --python-expr --python-text -b --batch --actions
    word macro:.*|vnd\.sun\.star\.script:.*
chrome chromium google-chrome chromium-browser
    runs --renderer-cmd-prefix --utility-cmd-prefix --gpu-launcher --browser-subprocess-path
    word --load-extension.*|--remote-debugging.*
sshuttle
    runs -e --ssh-cmd --python
xdotool ydotool
    verbs exec type key
busybox toybox
    verbs httpd inetd
"""

SERVICES = r"""
sqlite3 sqlite sqlcipher litecli
    code -init --init
    word -A.*
duckdb
    code -init --init -unsigned
    word [\s\S]*\b(?:install|load|attach|shellfs)\b[\s\S]*
mysql mariadb mycli
    code --init-command --plugin-dir --defaults-file --defaults-extra-file
    runs --pager
mysqlsh
    code -e --execute -f --file --py --js --pym
mongo mongosh
    code --eval
redis-cli valkey-cli
    code --eval
    verbs eval EVAL evalsha script SCRIPT module MODULE debug DEBUG function FUNCTION fcall
sqlplus sqlcl
    word @.*
docker podman nerdctl ctr finch lima buildah
    code --hooks-dir --runtime --init-path
    runs --health-cmd --credential-helper
kubectl oc k3s
    verbs exec run debug attach proxy plugin rsh
helm
    runs --post-renderer
    verbs plugin
kustomize
    runs --helm-command
    word --enable-(?:alpha-plugins|exec|helm|star).*
terraform tofu terragrunt
    code -plugin-dir --plugin-dir
    runs --terragrunt-tfpath --tf-path
    verbs console
pulumi
    code --policy-pack
ansible
    runs -a --args --vault-password-file --ssh-common-args --ssh-extra-args
    word (?:ansible\.\w+\.)?(?:shell|command|raw|script|expect)
ansible-playbook ansible-console ansible-pull
    runs --vault-password-file --ssh-common-args --ssh-extra-args --sftp-extra-args
    runs --scp-extra-args --become-password-file --connection-password-file --vault-id
salt salt-call salt-ssh
    verbs cmd.run cmd.shell cmd.exec_code cmd.script
    word cmd\..*
puppet
    code -e --execute
    verbs apply
chef-client chef-solo knife chef-shell
    code -E --exec
    verbs exec ssh
consul nomad
    verbs exec watch lock
act
    word -b|--(?:bind|privileged|container-.*)
systemd-run dbus-send qdbus start-stop-daemon daemonize
    word .*
loginctl busctl gdbus
    verbs call set-property emit enable-linger
flatpak
    runs --command
    verbs run enter override
snap
    runs --command
    word --(?:dangerous|devmode|classic|shell|gdb|strace).*
logrotate
    word (?!-)[\s\S]*
gio
    verbs launch
"""

LANGUAGES = r"""
gnuplot
    code -e
ghc ghci
    code -e -ghci-script -fplugin
    runs -pgmF -pgmP -pgmc -pgml -pgma -pgmL -F
runghc runhaskell
    code -e --ghc-arg
stack
    verbs eval ghci repl script
swift
    code -e -load-plugin-library
    verbs repl
swiftc
    code -load-plugin-library -load-plugin-executable
    runs -ld-path
scala scala-cli scala3
    code -e --execute-script -execute --script-snippet
    verbs repl
amm
    code -c --code --predef-code
kotlin kotlinc
    code -e -expression -Xplugin -Xcompiler-plugin
racket
    code -e --eval -l --lib
emacs emacsclient
    code -e --eval --execute -eval -f --funcall -l --load
    runs -a --alternate-editor
mix
    code -e --eval
    verbs eval rpc cmd archive.install escript.install
iex elixir elixirc
    code -e --eval -r -S --rpc-eval --dot-iex -pr --erl
erl
    code -eval -s -run -config
rebar3
    code --eval
    verbs shell
rails bin/rails
    code -e --execute
    verbs r runner c console db dbconsole
rake
    code -e -E -p --execute --execute-print --execute-continue -r --require
irb pry
    code -e -r --exec --require
thor
    verbs runner
ruby
    code -e -r
perl
    code -e -E -M -m -d
node nodejs
    code -e --eval -p --print -pe -r --require --import --loader --experimental-loader
tsx ts-node ts-node-esm
    code -e --eval -p --print -r --require --import --loader --compiler
bun
    code -e --eval -p --print -r --preload --require --import
    verbs repl
deno
    code --preload
    verbs eval repl
    word -A|--allow-(?:all|run|ffi).*
php
    code -r -B -R -E -F -z
    word (?:-d)?(?:auto_(?:pre|ap)pend_file|(?:zend_)?extension|sendmail_path|ffi\.enable)=.*
    word (?:-d)?opcache\.preload=.*
phpdbg
    code -r -e -i -x -s
psysh
    code -r
python python3 pypy pypy3
    code -c
    word -X ?presite.*
ipython ipython3
    code -c --ext --InteractiveShellApp.exec_lines --InteractiveShellApp.code_to_run
lua luajit lua5.1 lua5.2 lua5.3 lua5.4
    code -e -l -j
R Rscript
    code -e --default-packages
    runs --debugger -d
littler
    code -e -l
julia
    code -e --eval -E --print -L --load -J --sysimage
octave octave-cli
    code --eval --exec-path --path -p --image-path
matlab
    code -batch -r -sd
maxima
    code --batch-string -r --run-string --preload-lisp -p --lisp-options -X
gap gp
    code -c
sage
    code -c
scilab
    code -e
ocaml utop
    code -e -init -open
    runs -pp -ppx
ocamlc ocamlopt ocamlfind
    code -plugin
    runs -pp -ppx -cc -as
dune
    verbs utop top
clojure clj
    code -e --eval -M -X -T -Sdeps -J -i --init
lein
    code -e
    verbs repl update-in
bb
    code -e --eval -x --exec -I -O --init
joker
    code -e --eval
groovy groovysh
    code -e -a -i -n -p --evaluate
jshell
    code --startup -R -J
dotnet
    verbs fsi script csi
fsi fsharpi csi csharp dotnet-script
    code -e --exec --eval --load -r
    verbs eval
pwsh powershell
    code -c -Command -EncodedCommand -e -ec -command -encodedcommand -CommandWithArgs
osascript
    code -e
guile
    code -c -e -ds --listen
sbcl
    code --eval
clisp
    code -x
ecl ccl abcl
    code -e --eval -eval
chez scheme petite chezscheme mit-scheme
    code --eval -e
csi-scheme chicken csc
    code -e -eval -p -print -P -R
gosh
    code -e -E -u -m
fennel janet hy
    code -c -e --eval --plugin -l -m -E
nim
    code --eval
    verbs e
    value --?(?:\w+\.)*(?:exe|linkerexe|options\.linker)[:=].*
crystal
    verbs eval play
    runs --link-flags
dart
    code --packages
zig
    runs --test-cmd --test-runner --zig-lib-dir
v
    code -e
    runs -cc
    verbs repl
go
    runs -exec --exec -toolexec --toolexec -vettool --vettool
    word --?(?:overlay|ldflags)=(?:[^=]*-extld.*|[^-].*\.json)|-extld=.*
cargo
    code --config
rustc rustdoc clippy-driver
    runs --runtool --test-runtool --test-builder --sysroot
    value (?:-C|--codegen=)?(?:linker|link-args?|ar)=.*
    word -Z?(?:codegen-backend|llvm-plugins)=.*
tclsh wish
    code -c -e
expect
    code -c
awk gawk mawk nawk
    code -l --load -i --include -e --source
m4
    word [\s\S]*\be?syscmd\b[\s\S]*
bc dc
    word [\s\S]*![\s\S]*
gforth pforth
    code -e --evaluate
swipl prolog gprolog yap
    code -g -t --goal --query-goal --init-goal --entry-goal -z
raku perl6 rakudo io factor rebol arturo
    code -e --do -M
coffee livescript lsc
    code -e --eval -r --require
qjs d8 js jsc mujs gjs
    code -e --eval -c --execute
java
    code -javaagent -agentpath -agentlib
    value -XX:\+?(?:OnError|OnOutOfMemoryError)=.*
    word -XX:(?:Flags|VMOptionsFile|AbortVMOnException)=.*|-(?:javaagent|agentpath|agentlib|Xrun).*
    word -Xbootclasspath.*|-Djava\.system\.class\.loader=.*|@.*
javac javadoc
    code -processor -processorpath --processor-path --processor-module-path -Xplugin -doclet -taglet
    word -Xplugin.*|-J-(?:javaagent|XX|agent|Xboot).*
gcc g++ cc c++ clang clang++ gfortran ld lld collect2
    runs -wrapper -specs --specs -B --ld-path
    code -plugin --plugin -load
    word -(?:fplugin|fpass-plugin|specs|wrapper|iplugindir)[=/.].*|-B.*|-Wl,(?:.*,)?-?-plugin.*
"""

BUILDERS = r"""
apt apt-get aptitude apt-cache apt-config
    code -c --config-file
    value (?:-o|--option=?)?\w+::[\w:/-]*=.*
dpkg
    value --(?:pre-invoke|post-invoke|status-logger)=.*
    runs --pre-invoke --post-invoke --status-logger
    word --(?:root|instdir|admindir|force-.*)(?:=.*)?
dpkg-buildpackage
    runs -r --root-command -p --sign-command --check-command
    value --hook-[\w-]+=.*
yum dnf
    word --?setopt(?:=.*)?
pacman
    code --config --hookdir --root -r --sysroot
rpm rpmbuild rpmspec
    code --eval -E --define -D --macros --rcfile --load
    runs --pipe
brew
    verbs ruby irb sh
mvn mvnw
    value -Dexec\.[\w.]+=.*|-D[\w.]*(?:executable|javaagent|argLine|jvm)=.*
    word -Dexec.*|-D[\w.]*maven\.ext\.class\.path=.*|(?:exec|antrun|groovy|gmaven[\w-]*):.*
    word .*(?:exec|antrun|groovy)[\w-]*-plugin:.*
gradle gradlew
    code -I --init-script
    word -D(?:org\.gradle\.jvmargs|org\.gradle\.java\.home)=.*|-D.*javaagent.*
ant
    code -lib -listener -logger -inputhandler
sbt
    word eval .*|-J.*|set .*|.*![^=].*
make gmake bmake nmake remake
    value (?:\.SHELLFLAGS|SHELL|MAKEFLAGS|MAKEFILES)\s*[:+?]*=.*
    code --eval -E
just
    runs --shell --shell-arg --chooser
    code -c --command
cmake
    code -P
    value -DCMAKE_(?:\w*_LAUNCHER|MAKE_PROGRAM|LINKER|AR|RANLIB|CROSSCOMPILING_EMULATOR)(?::\w+)?=.*
ctest
    code -S --script -SP
    runs --build-makeprogram --test-command --test-launcher
bazel bazelisk blaze buck buck2
    runs --run_under --shell_executable --workspace_status_command --credential_helper
    code --bazelrc --host_jvm_args --server_javabase
meson
    runs --wrapper --wrap --gdb-path
scons waf
    code --site-dir
xmake premake4 premake5
    verbs lua l
autoconf automake autoreconf aclocal autom4te
    code -B --prepend-include
nix nix-build nix-instantiate nix-shell nix-env nix-store nix-repl
    code --expr -E --eval --apply
    runs --run --command --post-build-hook --pre-build-hook --diff-hook --plugin-files --builders
guix
    code -e --expression
    verbs repl
npm npx pnpm yarn
    runs -c --call --script-shell --git --editor --viewer --browser
    code --node-options --init-module --onload-script --pnpmfile --global-pnpmfile
pylint
    code --init-hook
mypy
    runs --python-executable
django-admin manage.py
    code -c --command
    verbs shell shell_plus dbshell
artisan
    code --execute
    verbs tinker
flask
    verbs shell
invoke inv fab
    verbs exec
gem
    verbs exec open
cpan cpanm
    code -M
    runs --look
pip pip3 uv
    runs --keyring-provider
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How one program is told to run something."""

    code: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    word: tuple[re.Pattern[str], ...] = ()
    value: tuple[re.Pattern[str], ...] = ()
    letters: str = field(init=False)  # options of one letter

    def __post_init__(self) -> None:
        """Find the letters."""
        short = (option[1] for option in self.code | self.runs if len(option) == 2)
        object.__setattr__(self, "letters", "".join(sorted(short)))


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a program is told to run.

    `text` is empty where it comes from elsewhere. `is_command` says that it is a program or a
    command line, `exact` that it is known before it runs.
    """

    option: str
    text: str = ""
    is_command: bool = False
    exact: bool = True


def _table(text: str) -> Iterator[tuple[str, Runner]]:
    """Yield the rows of a table."""
    names: list[str] = []
    fields: dict[str, list[str]] = {}
    for line in [*text.splitlines(), "-"]:
        if line.startswith(" "):
            kind, _, rest = line.strip().partition(" ")
            fields.setdefault(kind, []).append(rest)
        elif line:
            runner = _runner(fields)
            yield from ((name, runner) for name in names)
            names, fields = line.split(), {}


def _runner(fields: Mapping[str, list[str]]) -> Runner:
    words = {
        kind: frozenset(" ".join(fields.get(kind, ())).split())
        for kind in ("code", "runs", "verbs")
    }
    word, value = (
        tuple(re.compile(text, re.DOTALL | re.IGNORECASE) for text in fields.get(kind, ()))
        for kind in ("word", "value")
    )
    return Runner(**words, word=word, value=value)


TABLES = (LANGUAGES, BUILDERS, TOOLS, SERVICES)
RUNNERS: Mapping[str, Runner] = {name: runner for text in TABLES for name, runner in _table(text)}
_NAMES_A_VALUE = re.compile(r"[=:]")
_CLUSTER = re.compile(r"-[A-Za-z0-9]+")
_MAX_WORDS = 500  # that are looked at
_RUNS_SCRIPTS = re.compile(r"(?:python|pypy|php|ruby|node|nodejs|bun|deno|perl|tsx|ts-node)[0-9.]*")


def told(name: str, words: Sequence[Word]) -> tuple[Told, ...]:
    """Return what the words of a program, its name first, tell it to run.

    A script that an interpreter is told counts as the program of its name, if it is given code.
    """
    script = script_of(name, words)
    inner = () if script is None else _told(script[0].text.rpartition("/")[2], script)
    return (*_told(name, words), *(each for each in inner if each.text.strip()))


def script_of(name: str, words: Sequence[Word]) -> Sequence[Word] | None:
    """Return the words of an interpreter from its script on, None where there is none."""
    if not _RUNS_SCRIPTS.fullmatch(name):
        return None
    start = next((at for at, word in enumerate(words[1:6], 1) if word.text[:1] != "-"), None)
    return None if start is None or not words[start].exact else words[start:]


def _told(name: str, words: Sequence[Word]) -> tuple[Told, ...]:
    runner = RUNNERS.get(name) or RUNNERS.get(name.rstrip("0123456789."))
    if runner is None or len(words) < 2:
        return ()
    found: list[Told] = []
    first = next((word.text for word in words[1:] if word.text[:1] not in {"-", "+"}), "")
    if first in runner.verbs:
        found.append(Told(first, " ".join(word.text for word in words[1:]).partition(first)[2]))
    for at, word in enumerate(words[1:_MAX_WORDS], start=1):
        following = words[at + 1] if at + 1 < len(words) else None
        found += _option(runner, word, following)
        found += _pattern(runner, word)
    return tuple(found)


def _option(runner: Runner, word: Word, following: Word | None) -> Iterator[Told]:
    """Yield what an option, with the word behind it, runs."""
    text = word.text
    if text in runner.code or text in runner.runs:
        is_known = following is not None and following.exact
        value = following.text if following is not None else ""
        yield Told(text, value, text in runner.runs, exact=is_known)
        return
    if len(text) < 3 or (not runner.letters and "=" not in text and ":" not in text):
        return
    option, value = _split(text)
    if option in runner.code or option in runner.runs:
        yield Told(option, value, option in runner.runs, exact=word.exact)
    elif text[0] == "-" and text[1] != "-":
        yield from _cluster(runner, word, following)


def _split(text: str) -> tuple[str, str]:
    match = _NAMES_A_VALUE.search(text)
    return (text, "") if match is None else (text[: match.start()], text[match.end() :])


def _cluster(runner: Runner, word: Word, following: Word | None) -> Iterator[Told]:
    """Yield what an option of one letter runs that has its value attached, or stands last."""
    text = word.text
    if text[1] in runner.letters:
        option = text[:2]
        yield Told(option, text[2:], option in runner.runs, exact=word.exact)
    elif text[-1] in runner.letters and len(text) < 5 and _CLUSTER.fullmatch(text):
        option = f"-{text[-1]}"
        value = following.text if following is not None else ""
        is_known = following is not None and following.exact
        yield Told(option, value, option in runner.runs, exact=is_known)


def _pattern(runner: Runner, word: Word) -> Iterator[Told]:
    text = word.text
    if any(pattern.fullmatch(text) for pattern in runner.value):
        yield Told(text, _split_setting(text), is_command=True, exact=word.exact)
    elif any(pattern.fullmatch(text) for pattern in runner.word):
        yield Told(text, text, exact=word.exact)


def _split_setting(text: str) -> str:
    """Return what is set: behind the first `=`, else behind the first colon or space."""
    _, equals, value = text.partition("=")
    if equals:
        return value
    # Behind a colon options of the address follow.
    return re.split(r"[:\s]", text, maxsplit=1)[-1].replace(",", " ")


_CODE_LIKE = re.compile(
    r"--?(?:(?:[a-z]+-)*(?:eval|exec|execute|command|cmd|expr|expression|shell|run|script|code"
    r"|hook|invoke|javaagent|preload|interpreter)|(?:pre|post|on)-[a-z-]+)(?:=(?P<value>.*))?",
    re.DOTALL,
)
_CODE_LETTER = re.compile(r"-(?:(?P<likely>[ec])|[a-zA-Z])(?P<value>.*)", re.DOTALL)
# What many programs take behind -c and -e is the name of a file.
_FILE_NAME = re.compile(r"[\w./-]+\.(?:ya?ml|toml|json|jsonc|ini|cfg|conf|xml|txt|properties)")
_LOOKS_LIKE_CODE = re.compile(r"[\s;&|`$<>(]")


def may_be_code(words: Sequence[Word]) -> str | None:
    """Return the option by which most programs would run a text, None without one.

    It is for programs of which nothing is known.
    """
    for word, following in pairwise((*words[1:_MAX_WORDS], None)):
        text = "" if word is None else word.text
        if text[:1] != "-" or len(text) < 2:
            continue
        value = following.text if following is not None and following.text[:1] != "-" else ""
        if match := _CODE_LIKE.fullmatch(text):
            if match["value"] or value:
                return text.partition("=")[0]
        elif (match := _CODE_LETTER.fullmatch(text)) and text[1] != "-":
            value = match["value"] or value
            is_likely = match["likely"] and not match["value"] and not _FILE_NAME.fullmatch(value)
            if value and (is_likely or _LOOKS_LIKE_CODE.search(value)):
                return text[:2]
    return None
