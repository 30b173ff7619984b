#!/usr/bin/env bash
# Builds the small sample image: a static busybox, its applets, an /etc, and this machine's C library, which programs
# with a fraction of a GPU need. No registry, no root, no network. The same inputs give the same bytes, so that an image can
# be named by its digest.
#
#   etc/image.sh [--no-libc] NAME OUT.sif
set -euo pipefail

libc=yes
if [[ ${1-} == --no-libc ]]; then
    libc=no
    shift
fi
if [[ ${1-} == --help || ${1-} == -h || $# -ne 2 ]]; then
    echo "usage: etc/image.sh [--no-libc] NAME OUT.sif"
    echo "  --no-libc  without a C library, as images of static programs are"
    echo "  NAME     written into the image (/etc/image-name, and the label 'name')"
    echo "  OUT.sif  the file to make; an existing one is replaced"
    [[ ${1-} == --help || ${1-} == -h ]] && exit 0
    exit 2
fi
name=$1 out=$2

die() { echo "image.sh: $*" >&2; exit 1; }

[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._:-]*$ ]] || die "NAME '$name': use letters, digits and . _ : -"
for tool in apptainer mksquashfs busybox; do
    command -v "$tool" >/dev/null || die "$tool is missing; run: etc/setup.sh"
done
busybox=$(command -v busybox)
# A dynamic busybox would find no C library in the image; the error would come much later.
if LC_ALL=C ldd "$busybox" 2>/dev/null | grep -q '=>'; then
    die "$busybox is not static; run: etc/setup.sh"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022

mkdir -p "$root"/{bin,dev,etc,home,mnt,opt,proc,root,run,srv,sys,tmp,usr/bin,usr/sbin,var/tmp}
ln -s bin "$root/sbin"
chmod 1777 "$root/tmp" "$root/var/tmp"
cp "$busybox" "$root/bin/busybox"
chmod 755 "$root/bin/busybox"
"$busybox" --list | while read -r applet; do
    [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
done
ln -s ../../bin/env "$root/usr/bin/env" # what '#!/usr/bin/env' scripts ask for

if [[ $libc == yes ]]; then
    # Where the loader is, and beside libc.so.6 the parts that older C libraries keep apart.
    loader=$(ldd /bin/sh 2>/dev/null | awk '$1 ~ /^\/.*ld-linux/ {print $1}')
    cfile=$(ldd /bin/sh 2>/dev/null | awk '$1 == "libc.so.6" {print $3}')
    [[ -n $loader && -n $cfile ]] || die "this machine's C library was not found (ldd /bin/sh); --no-libc leaves it out"
    mkdir -p "$root${loader%/*}" "$root${cfile%/*}"
    cp -L "$loader" "$root$loader"
    for part in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 "${loader##*/}"; do
        [[ -e ${cfile%/*}/$part ]] && cp -L "${cfile%/*}/$part" "$root${cfile%/*}/$part"
    done
    chmod -R u+w,a+rX "$root/lib"*
fi

printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
# Apptainer binds the host's files over these three, and can only bind over what exists.
: >"$root/etc/hosts"
: >"$root/etc/resolv.conf"
: >"$root/etc/localtime"
echo "$name" >"$root/etc/image-name"

# Not needed to run, but 'apptainer inspect' and 'apptainer run' look for them.
meta=$root/.singularity.d
mkdir -p "$meta/env" "$meta/libs"
printf '{\n\t"name": "%s"\n}\n' "$name" >"$meta/labels.json"
printf '#!/bin/sh\nexec /bin/sh "$@"\n' >"$meta/runscript"
# Apptainer sets the variables of '--env' right after the script of this name, so there must be one.
# shellcheck disable=SC2016 # for the container's shell
printf '#!/bin/sh\n: "${LD_LIBRARY_PATH:=/.singularity.d/libs}"\nexport LD_LIBRARY_PATH\n' >"$meta/env/99-base.sh"
chmod 755 "$meta/runscript" "$meta/env/99-base.sh"

# mksquashfs gives every file to root and fixes the times, whoever runs this.
SOURCE_DATE_EPOCH=0 mksquashfs "$root" "$work/root.sqfs" -all-root -no-xattrs -noappend -no-progress \
    -comp gzip -quiet >"$work/log" 2>&1 || { cat "$work/log" >&2; die "mksquashfs failed"; }

# Put the SIF together by hand: 'apptainer build' would unpack the squashfs and pack it again with new times,
# and as root it needs capabilities that some machines withhold.
sif=$work/image.sif
case $(uname -m) in
x86_64) arch=2 ;;
aarch64) arch=4 ;;
ppc64le) arch=6 ;;
*) die "no SIF architecture number known for $(uname -m)" ;;
esac
{
    apptainer sif new "$sif" &&
        apptainer sif add --datatype 4 --partfs 1 --parttype 2 --partarch "$arch" --groupid 1 \
            --filename root.sqfs "$sif" "$work/root.sqfs"
} >"$work/log" 2>&1 || { cat "$work/log" >&2; die "apptainer could not make the SIF file"; }

# What differs from build to build: in the header the random id (16 bytes) and two times (8 each), in the
# descriptor of the one partition two times, the builder's uid and gid (8 each). Zero means "not said".
zero() { dd if=/dev/zero of="$sif" bs=1 seek="$1" count=32 conv=notrunc status=none; }
table=$(od -An -t d8 -j 96 -N 8 "$sif")
zero 48
zero $((table + 41))

# Whole or not at all: a reader of OUT never sees half a file.
cp "$sif" "$out.new.$$"
chmod 644 "$out.new.$$"
mv -f "$out.new.$$" "$out"
