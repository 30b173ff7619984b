#!/usr/bin/env bash
# Measures the fence on a machine with a real GPU, and prints one table. Needs what "make build" left in out/, nothing else: no
# network, no Apptainer, no root. It changes no setting of the GPU, uses one GPU (the one with the least memory in use), ends within
# four minutes, and ends what it started by process id. Where PyTorch or nvidia-smi are not there, the table says so.
#
#   etc/gpu-check.sh              on a real GPU
#   etc/gpu-check.sh --simulated  on the simulated driver, as far as that goes: to test this script
#
# Exit status: 0 when every measured row is as wanted, 1 when one is not, 2 when nothing could be measured.
set -uo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
out=${FAIRSLICE_BIN:-$here/out}
work=$(mktemp -d "${TMPDIR:-/tmp}/fairslice-gpu-check.XXXXXX")
deadline=$((SECONDS + 225))
simulated=
mps=
declare -a rows=()
wrong=0

# shellcheck disable=SC2317 # the trap calls it
finish() {
	if [ -n "$mps" ]; then
		echo quit | CUDA_MPS_PIPE_DIRECTORY=$work/mps timeout 5 nvidia-cuda-mps-control >"$work/quit" 2>&1
		kill -TERM "$mps" 2>/dev/null
		wait "$mps" 2>/dev/null
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

die() {
	echo "gpu-check: $*" >&2
	exit 2
}

# step runs a command for at most so many seconds, or until the time of the whole is over.
step() {
	local seconds=$1 left=$((deadline - SECONDS))
	shift
	[ "$left" -gt 0 ] || return 124
	[ "$seconds" -lt "$left" ] || seconds=$left
	timeout -k 2 "$seconds" "$@" 2>>"$work/errors"
}

# row adds one: what, measured, wanted, and whether it is so: ok, NO, or - for a figure that is only told.
row() {
	rows+=("$(printf '%s\t%s\t%s\t%s' "$@")")
	[ "$4" != NO ] || wrong=1
	echo "gpu-check: $1: $2" >&2
}
judge() { if awk "BEGIN { exit !($1) }"; then echo ok; else echo NO; fi; }
# after prints the word behind a word in the first line of stdin that begins so.
after() { awk -v begins="$1" -v word="$2" 'index($0, begins) == 1 { for (i = 1; i < NF; i++) if ($i == word) { print $(i + 1); exit } }'; }
mib() { awk -v n="${1:-0}" 'BEGIN { printf "%.0f", n / 1048576 }'; }
calc() { awk "BEGIN { printf \"${2:-%.1f}\", $1 }"; }

case "${1:-}" in
"") ;;
--simulated)
	simulated=1
	export FAIRSLICE_SIM_GPUS=1x8GiB FAIRSLICE_SIM_NODE=gpu-check FAIRSLICE_SIM_STATE=$work/state
	export LD_LIBRARY_PATH=$out/simdriver PATH=$out/simdriver:$PATH
	mkdir "$work/state"
	;;
*) die "usage: etc/gpu-check.sh [--simulated]" ;;
esac
for program in tenant mkregion libfgpu.so; do
	[ -e "$out/$program" ] || die "$out/$program is missing: run \"make build\" first, on any machine"
done
unset LD_PRELOAD FAIRSLICE_FGPU_DIR CUDA_VISIBLE_DEVICES CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
export CUDA_DEVICE_ORDER=PCI_BUS_ID
tenant=$out/tenant

# --- which GPU ---
index=0
if [ -z "$simulated" ] && command -v nvidia-smi >/dev/null; then
	index=$(step 20 nvidia-smi --query-gpu=memory.used,index --format=csv,noheader,nounits | sort -n | head -n 1 | awk -F', *' '{ print $2 }')
	index=${index:-0}
fi
# The context is what NVML says is in use more once there is one; other programs on the GPU would disturb that figure.
seen=$(step 60 "$tenant" "device=$index" nvml info nvml)
uuid=$(echo "$seen" | after "nvml device" device)
[ -n "$uuid" ] || die "no GPU answers: $(tail -n 1 "$work/errors") $seen"
model=$(echo "$seen" | sed -n 's/^info device .* name //p')
sms=$(echo "$seen" | after "info device" sms)
cuda=$(echo "$seen" | after "info device" cuda)
card=$(echo "$seen" | after "nvml memory " total)
before=$(echo "$seen" | after "nvml memory " used)
context=$(($(echo "$seen" | awk '/^nvml memory / { for (i = 1; i < NF; i++) if ($i == "used") n = $(i + 1) } END { print n }') - before))
[ "$context" -gt 0 ] || context=0
limit=$((card / 4))
[ "$limit" -lt $((16 << 30)) ] || limit=$((16 << 30))
blocks=200
[ -n "$simulated" ] || blocks=$((sms * 64)) # four waves of a kernel of which 16 blocks fit on one multiprocessor
row "GPU" "$model, $sms SMs, $(mib "$card") MiB, CUDA $cuda" "" -
row "context by NVML" "$(mib "$context") MiB" "" -

# slice makes a region for SHARE percent; fenced runs a command in it.
regions=0
slice() {
	regions=$((regions + 1))
	region=$work/region$regions
	step 10 "$out/mkregion" "$region" "$uuid" "$limit" "$1" "$context" >"$work/env" || die "no region: $(tail -n 1 "$work/errors")"
	mapfile -t variables <"$work/env"
}
fenced() {
	local seconds=$1
	shift
	step "$seconds" env "${variables[@]}" "$@"
}
plain() {
	local seconds=$1
	shift
	step "$seconds" env "CUDA_VISIBLE_DEVICES=$uuid" "$@"
}

# --- (a) the slice is what programs see ---
slice 100
seen=$(fenced 30 "$tenant" nvml info)
for what in "nvml memory " "info memory" "info device"; do
	total=$(echo "$seen" | after "$what" total)
	row "(a) total by ${what% }" "$(mib "$total") MiB" "$(mib "$limit") MiB" "$(judge "${total:-0} == $limit")"
done
if [ -z "$simulated" ] && command -v nvidia-smi >/dev/null; then
	total=$(fenced 20 nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1)
	row "(a) total by nvidia-smi" "${total:-?} MiB" "$(mib "$limit") MiB" "$(judge "${total:-0} + 0 == $(mib "$limit")")"
else
	row "(a) total by nvidia-smi" "not here" "" -
fi

# --- (b), (c) memory, by the driver API ---
for family in malloc pitch managed vmm array mipmap async pool graph; do
	slice 100
	line=$(fenced 30 "$tenant" fill "$family" | grep '^fill')
	left=$(echo "$line" | after fill after)
	total=$(echo "$line" | after fill total)
	granule=$(echo "$line" | after fill granule)
	case $family in async | pool | graph) granule=$((32 << 20)) ;; esac # a pool grows by chunks of up to 32 MiB
	case $line in
	"fill $family ok"*) row "(c) $family fills the slice" "$(mib "$total") MiB, left ${left:-?} bytes" "less than $granule left" "$(judge "${left:-1e12} < ${granule:-0}")" ;;
	*) row "(c) $family fills the slice" "${line:-no answer}" "" NO ;;
	esac
done
slice 100
line=$(fenced 60 "$tenant" threads 64 200 64M | grep '^threads')
over=$(echo "$line" | after threads over)
row "(c) 64 threads at the limit, overshoot" "${over:-?} bytes" "0" "$(judge "\"${over:-x}\" == \"0\"")"

# --- (b), (c) memory, by PyTorch ---
cat >"$work/fill.py" <<'PYTHON'
# Fills the slice by tensors of 64 MiB, then of 1 MiB; prints what PyTorch reserved and what the driver says is left.
import sys, torch
held, size = [], 64 << 20
if sys.argv[1] == "graph":
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2 + 1
    g.replay()
    torch.cuda.synchronize()
    assert float(y[0]) == 1.0
while size >= 1 << 20:
    try:
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        size >>= 1
free, total = torch.cuda.mem_get_info()
print("torch held", sum(t.numel() for t in held), "free", free, "total", total)
PYTHON
cat >"$work/speed.py" <<'PYTHON'
# Counts products of matrices that complete in three seconds, eager or by graph.
import sys, time, torch
a = torch.randn(2048, 2048, device="cuda"); out = torch.empty_like(a)
torch.mm(a, a, out=out); torch.cuda.synchronize()
step = lambda: torch.mm(a, a, out=out)
if sys.argv[1] == "graph":
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.mm(a, a, out=out)
    step = g.replay
events, done, end = [], 0, time.monotonic() + 3
while time.monotonic() < end:
    for _ in range(8):
        step()
    e = torch.cuda.Event(); e.record(); events.append(e)
    if len(events) > 64:
        events.pop(0).synchronize(); done += 8
print("torch completed", done)
PYTHON
torch=
if plain 40 python3 -c 'import torch; assert torch.cuda.is_available(); print(torch.__version__)' >"$work/torch"; then
	torch=$(tail -n 1 "$work/torch")
	for kind in native expandable cudaMallocAsync graph; do
		case $kind in
		expandable) conf=expandable_segments:True ;;
		cudaMallocAsync) conf=backend:cudaMallocAsync ;;
		*) conf=backend:native ;;
		esac
		slice 100
		line=$(fenced 40 env "PYTORCH_CUDA_ALLOC_CONF=$conf" "PYTORCH_ALLOC_CONF=$conf" python3 "$work/fill.py" "$kind" | grep '^torch')
		used=$(echo "$line" | awk '{ print $7 - $5 }')
		row "(b) PyTorch $torch fills the slice, $kind" "${line:+$(mib "$used") MiB}${line:-no answer: $(tail -n 1 "$work/errors")}" \
			"$(mib "$limit") MiB within 1 %" "$(judge "${used:-0} >= 0.99 * $limit && ${used:-0} <= $limit")"
	done
else
	row "(b) PyTorch" "not here" "" -
fi

# --- (d) the share of the time ---
count() { # SECONDS-LIMIT RUNNER HOW: kernels completed in two seconds
	local runner=$1 how=$2
	"$runner" 30 "$tenant" launch 1 1 greedy 2 "$blocks" "$how" | after greedy completed
}
for how in eager graph; do
	whole=$(count plain "$how")
	for share in 25 50 75; do
		slice "$share"
		part=$(count fenced "$how")
		got=$(calc "100 * ${part:-0} / (${whole:-0} + 1e-9)")
		row "(d) share $share %, $how" "$got % of ${whole:-?} kernels" "within a tenth" "$(judge "$got >= 0.9 * $share && $got <= 1.1 * $share")"
	done
done
if [ -n "$torch" ]; then
	for how in eager graph; do
		whole=$(plain 30 python3 "$work/speed.py" "$how" | after torch completed)
		slice 50
		part=$(fenced 30 python3 "$work/speed.py" "$how" | after torch completed)
		got=$(calc "100 * ${part:-0} / (${whole:-0} + 1e-9)")
		row "(d) share 50 %, PyTorch $how" "$got % of ${whole:-?} products" "within a tenth" "$(judge "$got >= 45 && $got <= 55")"
	done
fi

# --- (e) what a call costs ---
slice 100
bare=$(plain 30 "$tenant" latency 20000 alloclat 1000)
ours=$(fenced 30 "$tenant" latency 20000 alloclat 1000)
for what in latency "alloclat alloc" "alloclat free"; do
	a50=$(echo "$bare" | after "$what" p50) b50=$(echo "$ours" | after "$what" p50)
	a99=$(echo "$bare" | after "$what" p99) b99=$(echo "$ours" | after "$what" p99)
	case $what in latency) name="launch" most=100 ;; *) name=${what#alloclat } most=1000 ;; esac
	row "(e) $name, ns, p50" "${a50:-?} plain, ${b50:-?} fenced" "+$most" "$(judge "${b50:-1e9} - ${a50:-0} <= $most")"
	row "(e) $name, ns, p99" "${a99:-?} plain, ${b99:-?} fenced" "" -
done

# --- (f) kill -9 ---
slice 100
killed=$(fenced 60 "$tenant" kill9 10 1 | after kill9 killed)
held=$(step 10 "$out/mkregion" -sweep "$region" | after device held)
row "(f) held after ${killed:-?} times kill -9" "${held:-?} bytes" "0" "$(judge "\"${held:-x}\" == \"0\" && \"${killed:-x}\" == \"10\"")"
line=$(fenced 30 "$tenant" fill malloc | grep '^fill')
left=$(echo "$line" | after fill after)
row "(f) then malloc fills the slice" "left ${left:-?} bytes" "less than 512" "$(judge "${left:-1e12} < 512")"

# --- (g) MPS, with a control daemon of our own in a directory of its own ---
if command -v nvidia-cuda-mps-control >/dev/null; then
	mkdir "$work/mps" "$work/mps-log"
	CUDA_VISIBLE_DEVICES=$uuid CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log \
		nvidia-cuda-mps-control -f >"$work/mps.out" 2>&1 &
	mps=$!
	started=
	for _ in $(seq 50); do
		if echo get_server_list | CUDA_MPS_PIPE_DIRECTORY=$work/mps step 2 nvidia-cuda-mps-control >"$work/list" 2>&1; then
			started=1
			break
		fi
		kill -0 "$mps" 2>/dev/null || break
		sleep 0.1
	done
	client() { # PERCENT COMMAND...
		local percent=$1
		shift
		step 40 env "CUDA_VISIBLE_DEVICES=$uuid" "CUDA_MPS_PIPE_DIRECTORY=$work/mps" "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$percent" "$@"
	}
	all=
	[ -z "$started" ] || all=$(client 100 "$tenant" launch 1 1 greedy 2 "$blocks" eager | after greedy completed)
	[ -n "$started" ] || row "(g) MPS" "its daemon does not start: $(tail -n 1 "$work/mps.out")" "" -
	for percent in ${started:+25 50}; do
		seen=$(client "$percent" "$tenant" info launch 1 1 greedy 2 "$blocks" eager)
		part=$(echo "$seen" | after greedy completed)
		have=$(echo "$seen" | after "info device" sms)
		row "(g) MPS $percent %: SMs" "${have:-?} of $sms" "$(calc "$sms * $percent / 100" %.0f), rounded up" "$(judge "${have:-0} >= int($sms * $percent / 100) && ${have:-0} <= $sms * $percent / 100 + 8")"
		row "(g) MPS $percent %: throughput" "$(calc "100 * ${part:-0} / (${all:-0} + 1e-9)") % of ${all:-?} kernels" "about $percent %" -
	done
else
	row "(g) MPS" "no nvidia-cuda-mps-control here" "" -
fi

# --- the table ---
echo
[ -z "$simulated" ] || echo "On the SIMULATED driver: these figures say that the script works, and nothing about a GPU."
printf '%s\n' "$(printf 'what\tmeasured\twanted\t')" "${rows[@]}" | awk -F'\t' '
	{ for (i = 1; i <= 4; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
	END { for (r = 1; r <= NR; r++) printf "%-*s  %-*s  %-*s  %s\n", width[1], cell[r, 1], width[2], cell[r, 2], width[3], cell[r, 3], cell[r, 4] }'
echo "took $SECONDS s"
exit $wrong
