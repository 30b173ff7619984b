#!/usr/bin/env bash
# Builds an image of Debian packages, without a container registry: mmdebstrap installs them from the mirror that this
# machine's apt uses, into a tree that is packed as a SIF file. Works as root and as an ordinary user (by user namespaces,
# else by fakechroot). The image has no apt and does not know the mirror: a session reaches neither.
#
# The other etc/image-*.sh are calls of this one.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: etc/image-debian.sh [option]... NAME SUITE OUT.sif PACKAGE...
  NAME     name:tag, written into the image (/etc/image-name, and the label 'name')
  SUITE    Debian's code name: bookworm (12), trixie (13)
  OUT.sif  the file to make; an existing one is replaced
options:
  --label KEY=VALUE   a label of the image; may be repeated
  --files DIR         a folder that is copied over the installed tree
  --run COMMAND       run by sh when the packages are there, as root of the tree, whose path is $1; may use the network
What was built before from the same call is taken from the cache (FAIRSLICE_IMAGE_CACHE, else ~/.cache/fairslice/images), without
asking the mirror: for newer packages, remove it there. FAIRSLICE_DEBIAN_MIRROR names a mirror where apt's sources name none.
TEXT
}
die() { echo "image-debian.sh: $*" >&2; exit 1; }
wrong() { echo "image-debian.sh: $*; try --help" >&2; exit 2; }

labels=() files='' run=''
while [[ ${1-} == -* ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --label | --files | --run) [[ $# -ge 2 ]] || wrong "$1 needs a value" ;;
    *) wrong "unknown option '$1'" ;;
    esac
    case $1 in
    --label)
        # What needs no escaping in JSON.
        [[ $2 =~ ^[A-Za-z0-9._-]+=[^\"\\[:cntrl:]]*$ ]] || wrong "--label '$2': KEY=VALUE, VALUE without quotes and backslashes"
        labels+=("$2")
        ;;
    --files) files=$2 ;;
    --run) run=$2 ;;
    esac
    shift 2
done
[[ $# -ge 4 ]] || { usage >&2; exit 2; }
name=$1 suite=$2 out=$3
shift 3
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._:-]*$ ]] || wrong "NAME '$name': use letters, digits and . _ : -"
[[ $suite =~ ^[a-z]+$ ]] || wrong "SUITE '$suite': a code name of Debian, like bookworm"
for package; do
    [[ $package =~ ^[a-z0-9][a-z0-9.+-]+$ ]] || wrong "PACKAGE '$package': not a name of a Debian package"
done
[[ -z $files || -d $files ]] || wrong "--files '$files': no such folder"

# Debian keeps some programs out of an ordinary user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL=C
umask 022
for tool in apptainer mmdebstrap sqfstar; do
    command -v "$tool" >/dev/null || die "$tool is missing; run: etc/setup-apps.sh"
done
case $(uname -m) in
x86_64) arch=2 ;;
aarch64) arch=4 ;;
ppc64le) arch=6 ;;
*) die "no SIF architecture number known for $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # in a user namespace, root of the tree is somebody else here

# ---- What is laid over the packages' files ------------------------------------------------------

over=$work/over
meta=$over/.singularity.d
mkdir -p "$over/etc" "$meta/env" "$meta/libs"
[[ -z $files ]] || cp -R "$files/." "$over/"
echo "$name" >"$over/etc/image-name"
{
    printf '{\n\t"name": "%s"' "$name"
    for label in "${labels[@]}"; do printf ',\n\t"%s": "%s"' "${label%%=*}" "${label#*=}"; done
    printf '\n}\n'
} >"$meta/labels.json"
# The rest is as in image.sh, which says why.
printf '#!/bin/sh\nexec /bin/sh "$@"\n' >"$meta/runscript"
# shellcheck disable=SC2016 # for the container's shell
printf '#!/bin/sh\n: "${LD_LIBRARY_PATH:=/.singularity.d/libs}"\nexport LD_LIBRARY_PATH\n' >"$meta/env/99-base.sh"
chmod 755 "$meta/runscript" "$meta/env/99-base.sh"
tar -C "$over" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$work/over.tar" .

# ---- Built before? --------------------------------------------------------------------------------

# deliver puts a file at $out, whole or not at all. A copy, because Apptainer can write into a SIF file.
deliver() {
    cp "$1" "$out.new.$$"
    chmod 644 "$out.new.$$"
    mv -f "$out.new.$$" "$out"
}
key=$({
    cat "$0" "$work/over.tar"
    printf '%s\n' "$suite" "$arch" "$run" "$@"
} | sha256sum)
cache=${FAIRSLICE_IMAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairslice/images}
mkdir -p "$cache"
kept=$cache/$name-${key:0:16}.sif
exec 9>"$cache/$name.lock"
flock 9 # of two who want the same, the second waits, and takes what the first has built
if [[ -e $kept ]]; then
    deliver "$kept"
    exit 0
fi

# ---- Which mirror ---------------------------------------------------------------------------------

# sources prints apt sources for the suite, from those that this machine has for its own.
sources() {
    if [[ -n ${FAIRSLICE_DEBIAN_MIRROR-} ]]; then
        echo "deb $FAIRSLICE_DEBIAN_MIRROR $suite main"
        return
    fi
    local ID='' VERSION_CODENAME=''
    # shellcheck source=/dev/null
    . /etc/os-release
    [[ $ID == debian ]] || return 0
    # shellcheck disable=SC2016 # the dollars are apt's
    apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | sort -u |
        sed -nE "s/^(\S+) (${VERSION_CODENAME:-stable}|stable|oldstable)(-updates|-security)?\$/deb \1 $suite\3 main/p"
}
sources >"$work/sources.list"
[[ -s $work/sources.list ]] ||
    die "apt's sources on this machine name no mirror for Debian; set FAIRSLICE_DEBIAN_MIRROR to the URL of one"

# ---- Build ----------------------------------------------------------------------------------------

strip() {
    # Of the documentation the licences stay.
    printf -- '--dpkgopt=path-exclude=%s\n' '/usr/share/'{doc,man,info,locale,lintian,bash-completion}'/*'
    echo '--dpkgopt=path-include=/usr/share/doc/*/copyright'
    echo '--dpkgopt=force-unsafe-io' # a tree that is thrown away needs no fsync
}
mapfile -t strip < <(strip)
# shellcheck disable=SC2016 # $1 is mmdebstrap's
tidy='cd "$1" && rm -rf etc/apt/sources.list* etc/apt/apt.conf.d/99mmdebstrap var/log/* &&
    rm -f etc/resolv.conf etc/hosts etc/localtime etc/hostname && touch etc/resolv.conf etc/hosts etc/localtime'

# Essential packages, what was asked for, and what that depends on.
show() { cat "$work/log" >&2; }
SOURCE_DATE_EPOCH=0 mmdebstrap --variant=essential --include="$(IFS=,; echo "$*")" --skip=output/dev \
    --aptopt='APT::Install-Recommends "false"' "${strip[@]}" \
    ${run:+--customize-hook="$run"} --customize-hook="tar-in $work/over.tar /" --customize-hook="$tidy" \
    "$suite" "$work/root.tar" "$work/sources.list" >"$work/log" 2>&1 || { show; die "mmdebstrap failed"; }
# Apptainer has a /dev of its own, and needs the empty folder only.
mkdir "$work/dev"
tar -C "$work" --owner=0 --group=0 --mtime=@0 -rf "$work/root.tar" ./dev

SOURCE_DATE_EPOCH=0 sqfstar -all-root -root-mode 0755 -no-xattrs -no-progress -quiet -comp gzip \
    "$work/root.sqfs" <"$work/root.tar" >"$work/log" 2>&1 || { show; die "sqfstar failed"; }
rm "$work/root.tar"

sif=$work/image.sif
{
    apptainer sif new "$sif" &&
        apptainer sif add --datatype 4 --partfs 1 --parttype 2 --partarch "$arch" --groupid 1 \
            --filename root.sqfs "$sif" "$work/root.sqfs"
} >"$work/log" 2>&1 || { show; die "apptainer could not make the SIF file"; }

rm -f "$cache/$name"-*.sif
mv "$sif" "$kept.new"
mv "$kept.new" "$kept"
deliver "$kept"
