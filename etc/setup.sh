#!/usr/bin/env bash
# Installs what Fairslice needs beside Go: PostgreSQL's server programs, Apptainer and its helpers, a C
# compiler, and what the tests use. Looks first, says what it does, and changes nothing when all is there.
#
#   etc/setup.sh           install what is missing (as root, or by sudo)
#   etc/setup.sh --check   only report; exit status 1 when something is missing
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
check_only=no
case ${1-} in
'') ;;
--check) check_only=yes ;;
-h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
*)
    echo "setup.sh: unknown option '$1'; try --help" >&2
    exit 2
    ;;
esac
[[ $# -le 1 ]] || { echo "setup.sh: one option at most; try --help" >&2; exit 2; }

# Debian keeps newuidmap, mkfs and the like out of an ordinary user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL=C

say() { echo "setup: $*"; }
die() { echo "setup.sh: $*" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch" # the ordinary user of the last check reads the image in it

# ---- Which machine is this? -------------------------------------------------------------------

# shellcheck source=/dev/null
[[ -r /etc/os-release ]] && . /etc/os-release
family=unknown
case " ${ID-} ${ID_LIKE-} " in
*' ubuntu '*) family=ubuntu ;; # before debian: Ubuntu is "like" it
*' debian '*) family=debian ;;
*' fedora '* | *' rhel '* | *' centos '*) family=el ;;
esac

# ---- What is needed: a name, a test, and the package by family ----------------------------------

has_postgres() {
    local f
    for f in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb "$(command -v initdb || true)"; do
        [[ -n $f && -x $f && -x ${f%/*}/postgres ]] && return 0
    done
    return 1
}
has() { command -v "$1" >/dev/null; }
has_static_busybox() { has busybox && ! ldd "$(command -v busybox)" 2>/dev/null | grep -q '=>'; }
has_squashfuse() { has squashfuse || has squashfuse_ll; }
# A command that is there but cannot start (half an installation) counts as missing.
has_apptainer() { has apptainer && apptainer --version >/dev/null 2>&1; }

# what|test|Debian and Ubuntu package|EL and Fedora package
needs='PostgreSQL server|has_postgres|postgresql|postgresql-server
psql (tests)|has psql|postgresql-client|postgresql
C compiler|has gcc|gcc libc6-dev|gcc glibc-devel
make|has make|make|make
mksquashfs|has mksquashfs|squashfs-tools|squashfs-tools
squashfuse|has_squashfuse|squashfuse|squashfuse
fuse-overlayfs|has fuse-overlayfs|fuse-overlayfs|fuse-overlayfs
fuse2fs (bsub -writable)|has fuse2fs|fuse2fs|fuse2fs
newuidmap|has newuidmap|uidmap|shadow-utils
static busybox (sample image)|has_static_busybox|busybox-static|busybox
Apptainer|has_apptainer|apptainer|apptainer'

missing=()
packages=()
look() {
    missing=() packages=()
    local what test deb el add
    while IFS='|' read -r what test deb el; do
        $test && continue
        missing+=("$what")
        # Apptainer has its own ways, below.
        [[ $what == Apptainer ]] && continue
        if [[ $family == el ]]; then read -ra add <<<"$el"; else read -ra add <<<"$deb"; fi
        packages+=("${add[@]}")
    done <<<"$needs"
}

# fuse_closed: /dev/fuse is there, but not for everyone; users mount images through it.
fuse_closed() { [[ -c /dev/fuse && $(stat -c %a /dev/fuse) != 666 ]]; }

# ---- Does Apptainer truly run? ------------------------------------------------------------------

# try_exec runs a contained command in the image as who calls, or as 'nobody' with --nobody.
try_exec() {
    local as=()
    [[ ${1-} == --nobody ]] && as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    [[ $("${as[@]}" env -i PATH="$PATH" HOME="$scratch" \
        apptainer exec --contain --no-home "$scratch/check.sif" /bin/sh -c 'echo it runs' \
        2>"$scratch/err") == 'it runs' ]]
}
report_err() { sed 's/^/    /' "$scratch/err" >&2; }

build_check_image() {
    [[ -e $scratch/check.sif ]] || "$here/image.sh" check "$scratch/check.sif" 2>"$scratch/err"
}

# ---- Look ---------------------------------------------------------------------------------------

look
works=yes
if [[ ${#missing[@]} -eq 0 ]]; then
    if ! build_check_image; then
        works=no missing+=("a working 'etc/image.sh'")
    elif ! try_exec; then
        works=no missing+=("a working 'apptainer exec'")
    elif [[ $EUID -eq 0 ]] && ! fuse_closed && ! try_exec --nobody; then
        works=no missing+=("'apptainer exec' for ordinary users")
    fi
    [[ $works == yes ]] || report_err
fi
fuse_closed && missing+=("/dev/fuse for ordinary users (mode 0666)")

if [[ ${#missing[@]} -eq 0 ]]; then
    say "all is there; $(apptainer --version) works; nothing to do"
    exit 0
fi
for m in "${missing[@]}"; do say "missing: $m"; done
[[ $check_only == yes ]] && exit 1

if [[ $family == unknown ]]; then
    die "this distribution (${PRETTY_NAME-unknown}) is not one this script knows. Install by hand:
  PostgreSQL 13 or later (initdb, postgres, psql), Apptainer 1.2 or later, squashfs-tools, squashfuse,
  fuse-overlayfs, fuse2fs, newuidmap (uidmap or shadow-utils), gcc, make, a static busybox; make /dev/fuse mode 0666.
Then run: etc/setup.sh --check"
fi

if [[ $EUID -ne 0 ]]; then
    has sudo || die "installing needs root; run this script as root (there is no sudo here)"
    say "installing needs root; running this script again by sudo"
    sudo -- bash "$here/setup.sh"
    exit
fi

# ---- Install ------------------------------------------------------------------------------------

apt_install() {
    say "apt-get install $*"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >"$scratch/apt" 2>&1 && return
    say "apt-get update, and again"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >"$scratch/apt" 2>&1 ||
        { tail -20 "$scratch/apt" >&2; die "apt-get could not install: $*"; }
}
apt_has() { [[ $(apt-cache policy "$1" 2>/dev/null) == *Candidate:\ [0-9]* ]]; }

dnf_install() {
    say "dnf install $*"
    # EPEL carries Apptainer and squashfuse for EL; Fedora has them itself.
    if [[ ${ID-} != fedora ]] && ! rpm -q epel-release >/dev/null 2>&1; then
        dnf -q -y install epel-release || say "no epel-release package here; going on without"
    fi
    dnf -q -y --setopt=strict=False install "$@"
}

# apptainer_from_sid: Debian 12 and 13 have no Apptainer; Debian's unstable suite does, built against a newer C
# library. Take both from the mirror this machine already uses, keep the libraries apart in /opt/apptainer/lib,
# and point only Apptainer's two programs there: the rest of the system does not change, and
# apt never hears of the other suite.
apptainer_from_sid() {
    local uri key='' dir=$scratch/sid lib=/opt/apptainer/lib deb f ld
    has patchelf || apt_install patchelf
    # indextargets reads both forms of apt's sources, and leaves the security archive (which has no sid) to us.
    # shellcheck disable=SC2016 # the dollars are apt's
    uri=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="${VERSION_CODENAME-}" '$1 == suite || $1 == "stable" || $1 == "oldstable" { print $2; exit }')
    [[ -n $uri ]] || die "apt's sources name no mirror for Debian '${VERSION_CODENAME-?}'; Apptainer must come from there"
    f=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -r $f ]] && key="[signed-by=$f]"

    say "taking apptainer from Debian's sid suite on this machine's own mirror, its libraries into $lib"
    mkdir -p "$dir"/{lists,cache/archives}/partial
    echo "deb $key $uri sid main" >"$dir/sources.list"
    local opts=(-qq -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir/cache" -o Dir::Etc::SourceList="$dir/sources.list"
        -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${opts[@]}" update || die "the mirror does not serve the sid suite; Apptainer must be installed by hand"
    (cd "$dir" && apt-get "${opts[@]}" download apptainer libc6 libseccomp2 libsqlite3-0) ||
        die "could not download apptainer from the mirror's sid suite"

    mkdir -p "$dir/libs" "$lib"
    for deb in "$dir"/lib*.deb; do dpkg-deb -x "$deb" "$dir/libs"; done
    # The loader and every library that sits beside it; a flat folder keeps the search path short.
    find "$dir/libs" -path '*/lib/*' -name '*.so*' ! -path '*/gconv/*' ! -path '*/audit/*' -exec cp -a -t "$lib" {} +

    # Not over an apptainer.conf that the site has edited.
    dpkg-deb -x "$dir"/apptainer_*.deb "$dir/root"
    [[ -e /etc/apptainer/apptainer.conf ]] && rm -rf "$dir/root/etc"
    for f in "$dir/root/usr/bin/apptainer" "$dir"/root/usr/lib/*/apptainer/bin/starter; do
        ld=$lib/$(basename "$(patchelf --print-interpreter "$f")")
        [[ -e $ld ]] || die "sid's libc6 has no $(basename "$ld")"
        patchelf --force-rpath --set-rpath "$lib" --set-interpreter "$ld" "$f"
    done
    cp -a "$dir/root/." /
    mkdir -p /var/lib/apptainer/mnt/session
}

install_apptainer() {
    case $family in
    el) dnf_install apptainer ;;
    *)
        if apt_has apptainer; then
            apt_install apptainer
        elif [[ $family == debian ]]; then
            apptainer_from_sid
        else
            say "this Ubuntu has no apptainer package; adding the Apptainer project's own archive (ppa:apptainer/ppa)"
            has add-apt-repository || apt_install software-properties-common
            add-apt-repository -y ppa:apptainer/ppa >/dev/null
            apt_install apptainer
        fi
        ;;
    esac
}

if [[ ${#packages[@]} -gt 0 ]]; then
    if [[ $family == el ]]; then
        dnf_install "${packages[@]}"
    else
        # Debian's package makes and starts a cluster of its own; batchd runs a private one, so a machine that
        # had no PostgreSQL before should not get a listening server from us.
        if ! has_postgres && [[ ! -e /etc/postgresql-common ]]; then
            mkdir -p /etc/postgresql-common/createcluster.d
            echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/fairslice.conf
        fi
        apt_install "${packages[@]}"
    fi
fi
has_apptainer || install_apptainer

if [[ ! -e /dev/fuse ]]; then
    modprobe fuse 2>/dev/null || say "warning: there is no /dev/fuse; ordinary users can run images only unpacked"
fi
if fuse_closed; then
    # udev does this on most machines; one without udev needs it again after a boot.
    say "chmod 0666 /dev/fuse"
    chmod 0666 /dev/fuse
fi

# ---- Prove it -----------------------------------------------------------------------------------

look
[[ ${#missing[@]} -eq 0 ]] || die "still missing after the installation: ${missing[*]}"
build_check_image || { report_err; die "the sample image cannot be built here"; }
if ! try_exec; then
    # Apptainer gives a contained root all capabilities, and fails where the machine itself withholds one.
    conf=/etc/apptainer/apptainer.conf
    [[ -w $conf ]] || { report_err; die "'apptainer exec' does not work here"; }
    say "setting 'root default capabilities = no' in $conf: this machine withholds a capability from root"
    cp "$conf" "$scratch/conf"
    sed -i 's/^#\{0,1\} *root default capabilities *=.*/root default capabilities = no/' "$conf"
    grep -q '^root default capabilities = no' "$conf" || echo 'root default capabilities = no' >>"$conf"
    if ! try_exec; then
        cp "$scratch/conf" "$conf" # it was not that: leave no trace
        report_err
        die "'apptainer exec' does not work here"
    fi
fi
try_exec --nobody || { report_err; die "'apptainer exec' works for root, but not for ordinary users"; }
say "done; $(apptainer --version) works, as root and as an ordinary user"
