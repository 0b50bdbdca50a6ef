"""Rows of the table of what programs are told to run: tools and services. See `runners`."""

from __future__ import annotations

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
