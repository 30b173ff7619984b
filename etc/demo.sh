#!/usr/bin/env bash
# The worked examples, run for real: a cluster of this machine with simulated GPUs, jobs in containers.
# "make demo" builds first. Everything lies in a temporary directory and ends with this script.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
export PATH="${FAIRSLICE_BIN:-$here/out}:$PATH"
state=$(mktemp -d "${TMPDIR:-/tmp}/fairslice-demo.XXXXXX")
chmod 755 "$state" # jobs of other users reach their own files below it
work=$state/work
mkdir "$work"
cd "$work"
cluster=

finish() {
	status=$?
	if [ -n "$cluster" ]; then
		kill -TERM "$cluster" 2>/dev/null || true
		wait "$cluster" 2>/dev/null || true
	fi
	if [ $status -ne 0 ]; then
		echo "demo: failed; the daemons' log:" >&2
		tail -n 40 "$state/log" >&2 || true
	fi
	rm -rf "$state"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
# show prints a command as a user would type it, and runs it.
show() {
	printf '\n$ %s\n' "$*"
	eval "$@"
}
# until_state waits until a job is in a state; the deadline is far longer than it takes.
until_state() {
	for _ in $(seq 600); do
		case " $(bjobs -noheader -o stat "$1") " in *" $2 "*) return 0 ;; esac
		sleep 0.1
	done
	echo "demo: job $1 did not become $2; it is $(bjobs -noheader -o stat "$1")" >&2
	return 1
}
# id takes the number out of bsub's line, and shows the line.
submit() {
	printf '\n$ bsub'
	printf ' %q' "$@"
	echo
	line=$(bsub "$@")
	echo "$line"
	id=$(echo "$line" | sed 's/[^<]*<\([0-9]*\)>.*/\1/')
}

say "A cluster of one node: 4 slots, one simulated GPU of 8 GiB that is 2 fGPU"
batchd dev --state "$state/cluster" --nodes 1 --slots 4 --mem 4GiB --sim-gpus 1x8GiB --fgpu-per-gpu 2 \
	--terminate-interval 1s >"$state/ready" 2>"$state/log" &
cluster=$!
for _ in $(seq 600); do
	grep -q '^ready:' "$state/ready" && break
	kill -0 "$cluster" || exit 1
	sleep 0.1
done
line=$(grep '^ready:' "$state/ready")
echo "$line"
eval "${line#ready: }"
show lsid
show bhosts

say "A batch job in a container, with its output and report"
submit -J hello -image sample -o hello.out 'echo "hello from $(hostname), as $(id -un), in $(pwd)"'
until_state "$id" DONE
show cat hello.out

say "Three sessions of 1 fGPU on a GPU of 2 fGPU: two run, the third says why it waits, and starts by itself"
for name in one two three; do
	submit -J $name -gpu fgpu=1 -image sample -W 10 sleep 300
	eval "$name=$id"
done
# shellcheck disable=SC2154 # set by the loop above
until_state "$one" RUN && until_state "$two" RUN
show bjobs
show bwhy "$three"
show bslice -l
show bkill "$one"
until_state "$three" RUN
show bjobs
show bkill 0
for j in "$two" "$three"; do until_state "$j" EXIT; done

say "What a slice of 0.5 fGPU is: a GPU of 2048 MiB and 25 % of its time, fenced (the GPU is SIMULATED; tenant is a CUDA program)"
cp "$(dirname "$(command -v batchd)")/tenant" "$(dirname "$(command -v batchd)")/simdriver/sim-ioctl" .
submit -J half -gpu fgpu=0.5 -image sample -o half.out './tenant info nvml; sleep 2; fgpu-smi'
until_state "$id" DONE
show "sed '/^---/,\$d' half.out"

say "Each way to allocate gets exactly what is left beside a context of 64 MiB, and is refused the next byte"
families='malloc pitch async pool vmm array mipmap managed graph'
submit -J families -gpu fgpu=0.5 -image sample -o families.out "for f in $families; do ./tenant fill \$f; done"
until_state "$id" DONE
show "sed '/^---/,\$d' families.out"

say "Four of them want the whole GPU for 10 seconds: 100,000 kernels of 100 microseconds are all of it"
neighbours=
for way in eager eager graph graph; do
	submit -J "$way" -gpu fgpu=0.5 -image sample -o "greedy.%J" "./tenant greedy 10 100 $way"
	neighbours="$neighbours $id"
done
# shellcheck disable=SC2086 # a list of numbers
for j in $neighbours; do until_state "$j" DONE; done
show "grep -h ^greedy greedy.*"
show "bjobs -l $id | sed -n '/SLICE USAGE/,\$p'"

say "A program that goes past the fence, straight to the driver, is ended by the watchdog"
submit -J evade -gpu fgpu=0.5 -image sample -o evade.out 'cp /.singularity.d/libs/simulated.conf . && ./sim-ioctl 4294967296 60'
until_state "$id" EXIT
show "bhist -l $id | sed -n '/Note:/,/TERM_/p'"

say "An array of 100 elements, 4 at a time"
submit -J 'squares[1-100]%4' -o 'squares.%I' 'echo $((LSB_JOBINDEX * LSB_JOBINDEX))'
array=$id
for _ in $(seq 600); do
	[ "$(bjobs -A -noheader "$array" 2>/dev/null | awk '{print $6}')" = 100 ] && break
	sleep 0.1
done
show bjobs -A "$array"
show "head -qn 1 squares.1 squares.10 squares.100"

say "A job that reaches its run limit"
submit -J slow -W 0:01 -o slow.out 'sleep 600'
slow=$id

say "A job that needs more memory than it asked for"
submit -J greedy -M 64MB -o greedy.out 'head -c 500000000 /dev/zero | tail -c 400000000 | (sleep 20; wc -c)'
until_state "$id" EXIT
show "bjobs -l $id | sed -n '2,/^ RUNLIMIT/p'"
show "bjobs -o 'jobid stat exit_code exit_reason' $id"

say "The run limit of a minute, meanwhile"
until_state "$slow" EXIT
show "bjobs -o 'jobid stat exit_code exit_reason run_time' $slow"
show bhist -l "$slow"

say "Interactive: a terminal on the node"
show "bsub -I -image sample 'echo running as \$(id -un); exit 0'"

say "Accounts: physics has three shares, chem one; who has used what of them"
cat >site.policy <<'POLICY'
account physics shares=3 description="three quarters of the site"
account chem shares=1
user alice account=physics default
user bob account=chem default
limit each-user running=100
POLICY
show badmin account load site.policy
show bshare
show bacct -u all
show breport usage -by project
show breport usage -by user -plot usage.svg
show "head -c 60 usage.svg; echo"

say "Everything that ran"
show "bjobs -a | sed '17,110d'"
say "Done. Start your own with: out/batchd dev --state DIR --nodes 2 --sim-gpus 1x8GiB --fgpu-per-gpu 2"
