package show

import (
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
	"fairslice/queue"
)

// JobFields are the columns of bjobs -o, with LSF's names, widths and aliases, and after those our own.
var JobFields = []Field[*pb.Job]{
	{Name: "jobid", Width: 7, Aliases: []string{"id"}, Value: func(b []byte, j *pb.Job, st *Style, _ byte) []byte { return st.id(b, j) }},
	{Name: "jobindex", Width: 8, Value: num(func(j *pb.Job) int64 { return int64(j.Index) })},
	{Name: "stat", Width: 5, Value: str(func(j *pb.Job) string { return j.State })},
	{Name: "user", Width: 7, Value: str(func(j *pb.Job) string { return j.GetOwner().GetUser() })},
	{Name: "user_group", Width: 15, Aliases: []string{"ugroup"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetAccount() })},
	{Name: "queue", Width: 10, Value: str(func(j *pb.Job) string { return j.Queue })},
	{Name: "job_name", Width: 10, Aliases: []string{"name"}, Tail: true, Value: str(Name)},
	{Name: "job_description", Width: 17, Aliases: []string{"description"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetDescription() })},
	{Name: "proj_name", Width: 11, Aliases: []string{"proj", "project"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetProject() })},
	{Name: "application", Width: 13, Aliases: []string{"app"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetApp() })},
	{Name: "service_class", Width: 13, Aliases: []string{"sla"}, Value: str(nothing)},
	{Name: "job_group", Width: 10, Aliases: []string{"group"}, Value: str(nothing)},
	{Name: "job_priority", Width: 12, Aliases: []string{"priority"}, Value: some(func(j *pb.Job) int64 { return int64(j.GetSpec().GetPriority()) })},
	{Name: "rsvid", Width: 40, Value: str(func(j *pb.Job) string { return j.GetSpec().GetReservation() })},
	{Name: "esub", Width: 20, Value: str(nothing)},
	{Name: "kill_reason", Width: 50, Value: str(killReason)},
	{Name: "suspend_reason", Width: 50, Value: str(nothing)},
	{Name: "resume_reason", Width: 50, Value: str(nothing)},
	{Name: "kill_issue_host", Width: 50, Value: str(nothing)},
	{Name: "dependency", Width: 15, Value: str(func(j *pb.Job) string { return j.GetSpec().GetDepend() })},
	{Name: "pend_reason", Width: 11, Value: str(pendReason)},
	{Name: "charged_saap", Width: 50, Aliases: []string{"saap"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetAccount() })},
	{Name: "command", Width: 15, Aliases: []string{"cmd"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetCommand() })},
	{Name: "pre_exec_command", Width: 16, Aliases: []string{"pre_cmd"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetPreExec() })},
	{Name: "post_exec_command", Width: 17, Aliases: []string{"post_cmd"}, Value: str(func(j *pb.Job) string { return j.GetSpec().GetPostExec() })},
	{Name: "pids", Width: 20, Value: func(b []byte, j *pb.Job, _ *Style, _ byte) []byte { return pids(b, j.GetUsage().GetPids()) }},
	{Name: "exit_code", Width: 10, Value: func(b []byte, j *pb.Job, _ *Style, _ byte) []byte {
		if code, ok := exitCode(j); ok && code != 0 {
			return strconv.AppendInt(b, int64(code), 10)
		}
		return b
	}},
	{Name: "exit_reason", Width: 50, Value: str(exitReason)},
	{Name: "interactive", Width: 11, Value: str(func(j *pb.Job) string { return j.GetSpec().GetInteractive() })},
	{Name: "from_host", Width: 11, Value: str(func(j *pb.Job) string { return j.GetSpec().GetSubHost() })},
	{Name: "first_host", Width: 11, Value: str(func(j *pb.Job) string {
		if len(j.Alloc) == 0 {
			return ""
		}
		return j.Alloc[0].Node
	})},
	{Name: "exec_host", Width: 11, Value: func(b []byte, j *pb.Job, st *Style, _ byte) []byte { return st.Hosts(b, j.Alloc, ':') }},
	{Name: "nexec_host", Width: 10, Aliases: []string{"nehost"}, Value: some(func(j *pb.Job) int64 { return int64(len(j.Alloc)) })},
	{Name: "ask_hosts", Width: 30, Value: str(askHosts)},
	{Name: "alloc_slot", Width: 20, Value: func(b []byte, j *pb.Job, st *Style, _ byte) []byte { return st.Hosts(b, j.Alloc, ':') }},
	{Name: "nalloc_slot", Width: 10, Value: some(func(j *pb.Job) int64 { return int64(allocSlots(j)) })},
	{Name: "exclusive", Width: 13, Value: str(func(j *pb.Job) string { return yesNo(j.GetSpec().GetExclusive()) })},
	{Name: "nreq_slot", Width: 10, Value: num(func(j *pb.Job) int64 { return int64(wantSlots(j)) })},
	{Name: "submit_time", Width: 15, Value: moment(func(j *pb.Job) int64 { return j.Submitted })},
	{Name: "start_time", Width: 15, Value: moment(began)},
	{Name: "estimated_start_time", Width: 20, Aliases: []string{"estart_time"}, Value: moment(func(j *pb.Job) int64 { return j.ExpectedStart })},
	{Name: "specified_start_time", Width: 20, Aliases: []string{"sstart_time"}, Value: moment(func(j *pb.Job) int64 { return j.GetSpec().GetBegin() })},
	{Name: "specified_terminate_time", Width: 24, Aliases: []string{"sterminate_time"}, Value: moment(func(j *pb.Job) int64 { return j.GetSpec().GetTerminate() })},
	{Name: "time_left", Width: 11, Value: timeLeft},
	{Name: "finish_time", Width: 16, Value: finishTime},
	{Name: "ru_utime", Width: 12, Value: span(1, func(j *pb.Job, _ *Style) int64 { return j.GetUsage().GetUserCpu() })},
	{Name: "ru_stime", Width: 12, Value: span(1, func(j *pb.Job, _ *Style) int64 { return j.GetUsage().GetSysCpu() })},
	{Name: "%complete", Width: 11, Value: complete},
	{Name: "pendstate", Width: 9, Value: str(func(j *pb.Job) string {
		if !pending(j) {
			return ""
		}
		return "EPEND"
	})},
	{Name: "pend_time", Width: 12, Value: pendTime},
	{Name: "cpu_used", Width: 10, Value: span(1, func(j *pb.Job, _ *Style) int64 { return j.GetUsage().GetCpu() })},
	{Name: "run_time", Width: 15, Value: span(0, func(j *pb.Job, st *Style) int64 { return int64(ran(j, st.Now)) })},
	{Name: "idle_factor", Width: 11, Value: idleFactor},
	{Name: "slots", Width: 5, Value: num(func(j *pb.Job) int64 { return int64(max(allocSlots(j), wantSlots(j))) })},
	{Name: "mem", Width: 10, Size: true, Value: size(func(j *pb.Job) int64 { return j.GetUsage().GetMemory() })},
	{Name: "max_mem", Width: 10, Size: true, Value: size(func(j *pb.Job) int64 { return j.GetUsage().GetMaxMemory() })},
	{Name: "avg_mem", Width: 10, Size: true, Value: size(func(j *pb.Job) int64 { return j.GetUsage().GetAvgMemory() })},
	{Name: "memlimit", Width: 10, Size: true, Value: size(memoryLimit)},
	{Name: "swap", Width: 10, Size: true, Value: str(nothing)},
	{Name: "swaplimit", Width: 10, Size: true, Value: size(limit("v"))},
	{Name: "gpu_num", Width: 10, Aliases: []string{"gnum"}, Value: some(gpuNum)},
	{Name: "gpu_mode", Width: 20, Aliases: []string{"gmode"}, Value: str(gpuMode)},
	{Name: "j_exclusive", Width: 15, Aliases: []string{"j_excl"}, Value: str(func(j *pb.Job) string {
		if gpuNum(j) == 0 {
			return ""
		}
		return yesNo(j.GetSpec().GetGpuRequest().GetExclusive())
	})},
	{Name: "gpu_alloc", Width: 30, Aliases: []string{"galloc"}, Value: gpuAlloc},
	{Name: "nthreads", Width: 10, Value: some(func(j *pb.Job) int64 { return int64(j.GetUsage().GetThreads()) })},
	{Name: "hrusage", Width: 50, Size: true, Value: str(nothing)},
	{Name: "min_req_proc", Width: 12, Value: some(func(j *pb.Job) int64 { return int64(j.GetSpec().GetMinSlots()) })},
	{Name: "max_req_proc", Width: 12, Value: some(func(j *pb.Job) int64 {
		return int64(max(j.GetSpec().GetMaxSlots(), j.GetSpec().GetMinSlots()))
	})},
	{Name: "effective_resreq", Width: 17, Aliases: []string{"eresreq"}, Value: str(resReq)},
	{Name: "combined_resreq", Width: 20, Aliases: []string{"cresreq"}, Value: str(resReq)},
	{Name: "filelimit", Width: 10, Size: true, Value: size(limit("F"))},
	{Name: "corelimit", Width: 10, Size: true, Value: size(limit("C"))},
	{Name: "stacklimit", Width: 10, Size: true, Value: size(limit("S"))},
	{Name: "processlimit", Width: 12, Value: some(limit("p"))},
	{Name: "runtimelimit", Width: 12, Value: runLimit},
	{Name: "plimit", Width: 10, Value: str(nothing)},
	{Name: "eplimit", Width: 10, Value: str(nothing)},
	{Name: "input_file", Width: 10, Value: str(func(j *pb.Job) string { return j.GetSpec().GetStdin() })},
	{Name: "output_file", Width: 11, Value: str(func(j *pb.Job) string { return or(j.Stdout, j.GetSpec().GetStdout()) })},
	{Name: "error_file", Width: 10, Value: str(func(j *pb.Job) string { return or(j.Stderr, j.GetSpec().GetStderr()) })},
	{Name: "output_dir", Width: 15, Value: str(nothing)},
	{Name: "sub_cwd", Width: 10, Value: str(func(j *pb.Job) string { return j.GetSpec().GetSubCwd() })},
	{Name: "exec_home", Width: 10, Value: str(func(j *pb.Job) string { return j.Home })},
	{Name: "exec_cwd", Width: 10, Value: str(func(j *pb.Job) string { return j.Cwd })},
	{Name: "mem_efficiency", Width: 10, Value: memEfficiency},
	{Name: "cpu_efficiency", Width: 10, Value: cpuEfficiency},
	{Name: "average_cpu_efficiency", Width: 10, Value: cpuEfficiency},

	{Name: "fgpu", Width: 6, Value: func(b []byte, j *pb.Job, _ *Style, _ byte) []byte {
		if j.Fgpu == 0 {
			return b
		}
		return FGPU(b, j.Fgpu)
	}},
	{Name: "gpu_mem", Width: 10, Size: true, Value: sliceMemory(func(u queue.GPUUsage) int64 { return u.Memory })},
	{Name: "gpu_max_mem", Width: 11, Size: true, Value: sliceMemory(func(u queue.GPUUsage) int64 { return u.MaxMemory })},
	{Name: "gpu_sm_time", Width: 11, Value: span(1, sliceTime)},
	{Name: "gpu_sm_mean", Width: 11, Value: sliceMean},
	{Name: "gpu_usage", Width: 50, Value: str(sliceUsageText)},
	{Name: "image_fetch", Width: 20, Value: str(FetchText)},
	{Name: "image", Width: 20, Value: str(func(j *pb.Job) string { return or(j.GetSpec().GetImage(), j.Image) })},
	{Name: "attempts", Width: 8, Value: num(func(j *pb.Job) int64 { return int64(j.Attempts) })},
	{Name: "detail", Width: 50, Value: str(func(j *pb.Job) string { return or(j.Detail, j.Note) })},
}

// DefaultJobFormat is what -o "" and -json without -o print.
const DefaultJobFormat = "jobid user stat queue from_host exec_host job_name submit_time"

func nothing(*pb.Job) string { return "" }

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func yesNo(v bool) string {
	if v {
		return "Y"
	}
	return "N"
}

func str(get func(*pb.Job) string) func([]byte, *pb.Job, *Style, byte) []byte {
	return func(b []byte, j *pb.Job, _ *Style, _ byte) []byte { return append(b, get(j)...) }
}

func num(get func(*pb.Job) int64) func([]byte, *pb.Job, *Style, byte) []byte {
	return func(b []byte, j *pb.Job, _ *Style, _ byte) []byte { return strconv.AppendInt(b, get(j), 10) }
}

// some is num with 0 as empty.
func some(get func(*pb.Job) int64) func([]byte, *pb.Job, *Style, byte) []byte {
	return func(b []byte, j *pb.Job, _ *Style, _ byte) []byte {
		if v := get(j); v != 0 {
			return strconv.AppendInt(b, v, 10)
		}
		return b
	}
}

func size(get func(*pb.Job) int64) func([]byte, *pb.Job, *Style, byte) []byte {
	return func(b []byte, j *pb.Job, _ *Style, unit byte) []byte {
		if v := get(j); v > 0 {
			return Bytes(b, v, unit)
		}
		return b
	}
}

func moment(get func(*pb.Job) int64) func([]byte, *pb.Job, *Style, byte) []byte {
	return func(b []byte, j *pb.Job, st *Style, _ byte) []byte {
		if v := get(j); v != 0 {
			return st.time(b, v)
		}
		return b
	}
}

func span(decimals int, get func(*pb.Job, *Style) int64) func([]byte, *pb.Job, *Style, byte) []byte {
	return func(b []byte, j *pb.Job, st *Style, _ byte) []byte {
		return st.seconds(b, time.Duration(get(j, st)), decimals)
	}
}

func limit(letter string) func(*pb.Job) int64 {
	return func(j *pb.Job) int64 { return j.GetSpec().GetLimits()[letter] }
}

func killReason(j *pb.Job) string {
	if strings.HasPrefix(j.Verdict, "TERM_OWNER") || strings.HasPrefix(j.Verdict, "TERM_ADMIN") || strings.HasPrefix(j.Verdict, "TERM_FORCE") {
		return j.Note
	}
	return ""
}

// pendReason is empty for a job that waits for nothing: one that has started may wait for its image.
func pendReason(j *pb.Job) string {
	if !pending(j) && len(j.Reasons) == 0 {
		return ""
	}
	return strings.Join(Reasons(j), " ")
}

func askHosts(j *pb.Job) string {
	var words []string
	for _, h := range j.GetSpec().GetHosts() {
		words = append(words, wish(h))
	}
	return strings.Join(words, " ")
}

// wish is one word of -m.
func wish(h *pb.HostWish) string {
	s := h.Name
	if h.Others {
		s = "others"
	}
	if h.First {
		s += "!"
	}
	if h.Preference > 0 {
		s += "+" + strconv.Itoa(int(h.Preference))
	}
	return s
}

func resReq(j *pb.Job) string { return or(j.EffectiveResreq, j.GetSpec().GetResReq()) }
