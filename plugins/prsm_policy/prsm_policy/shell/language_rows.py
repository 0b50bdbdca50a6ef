"""Rows of the table of what programs are told to run: languages, builders. See `runners`."""

from __future__ import annotations

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
