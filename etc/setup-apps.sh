#!/usr/bin/env bash
# Installs what `make test-apps` needs beside what etc/setup.sh installs: mmdebstrap and pip, which build the images, a headless
# Chromium, which looks at their apps, and a font that has Japanese and Korean, for the pictures. Looks first, says what it does, and
# changes nothing when all is there.
#
#   etc/setup-apps.sh           install what is missing (as root, or by sudo)
#   etc/setup-apps.sh --check   only report; exit status 1 when something is missing
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
check_only=no
case $#:${1-} in
0:) ;;
1:--check) check_only=yes ;;
1:-h | 1:--help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
*)
    echo "setup-apps.sh: unknown option '$*'; try --help" >&2
    exit 2
    ;;
esac
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL=C

say() { echo "setup-apps: $*"; }
die() { echo "setup-apps.sh: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null; }
has_browser() { has chromium || has chromium-browser || has google-chrome; }
has_font() { [[ -n $(fc-list :lang=ja family) && -n $(fc-list :lang=ko family) ]]; } 2>/dev/null # without fc-list it has none
has_debian_keys() { [[ -r /usr/share/keyrings/debian-archive-keyring.gpg ]]; }

# what|test|Debian and Ubuntu package
needs="mmdebstrap (images)|has mmdebstrap|mmdebstrap
Debian's keys (images)|has_debian_keys|debian-archive-keyring
sqfstar (images)|has sqfstar|squashfs-tools
pip (MLflow's image)|has pip3|python3-pip
Chromium (tests of apps)|has_browser|chromium
fc-list (fonts)|has fc-list|fontconfig
a font with Japanese and Korean (pictures)|has_font|fonts-wqy-microhei"

missing=() packages=()
look() {
    missing=() packages=()
    local what test package
    while IFS='|' read -r what test package; do
        $test && continue
        missing+=("$what") packages+=("$package")
    done <<<"$needs"
}

if [[ $check_only == yes ]]; then
    status=0
    "$here/setup.sh" --check || status=1
    look
    for m in "${missing[@]}"; do say "missing: $m"; status=1; done
    [[ $status -ne 0 ]] || say "all is there"
    exit $status
fi

"$here/setup.sh"
look
if [[ ${#missing[@]} -eq 0 ]]; then
    say "all is there; nothing to do"
    exit 0
fi
for m in "${missing[@]}"; do say "missing: $m"; done
has apt-get || die "only Debian's and Ubuntu's packages are known here. Install the above by hand, then run: etc/setup-apps.sh --check"
if [[ $EUID -ne 0 ]]; then
    has sudo || die "installing needs root; run this script as root (there is no sudo here)"
    say "installing needs root; running this script again by sudo"
    sudo -- bash "$here/setup-apps.sh"
    exit
fi

install() { DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${packages[@]}" 2>&1; }
say "apt-get install ${packages[*]}"
if ! text=$(install); then
    say "apt-get update, and again"
    apt-get -qq update
    text=$(install) || { tail -20 <<<"$text" >&2; die "apt-get could not install: ${packages[*]}"; }
fi
look
[[ ${#missing[@]} -eq 0 ]] || die "still missing after the installation: ${missing[*]}"
say "done"
