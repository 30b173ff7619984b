package store

import (
	"slices"
	"strings"
)

// fact is a figure that groups of attempts have a sum, a least or a greatest of: a column of ended_sums.
type fact struct {
	name string
	how  string // the aggregate: sum, min, max
	sql  string // what one attempt adds, over the columns of attempts; ::num stands for the type in which products are reckoned: sums of bigint are exact
}

// facts are all columns of ended_sums that are numbers or times, in any order. What an older batchd wrote has amounts times seconds only.
var facts = []fact{
	{"attempts", "sum", "1"},
	{"jobs", "sum", "final::int"},
	{"done", "sum", "coalesce(outcome = 'done', false)::int"},
	{"slot_ms", "sum", "coalesce(slots::num * ms, round(slot_seconds * 1000)::num)"},
	{"fgpu_ms", "sum", "coalesce(fgpu::num * ms, round(fgpu_seconds * 100000)::num)"},
	{"gpu_ms", "sum", "gpus::num * ms"},
	{"byte_ms", "sum", "memory::num * ms"},
	{"used_byte_ms", "sum", "CASE WHEN memory > 0 THEN max_memory::num * ms END"},
	{"measured_fgpu_ms", "sum", "CASE WHEN sm_measured_ns > 0 THEN fgpu::num * ms END"},
	{"cpu_ns", "sum", "cpu_ns"},
	{"sm_ns", "sum", "sm_ns"},
	{"sm_asked_ns", "sum", "round(sm_asked(fgpu, gpu_slices, gpu_capacity, sm_measured_ns))::num"},
	{"starts", "sum", "(waited_ms IS NOT NULL)::int"},
	{"wait_ms", "sum", "waited_ms"},
	{"wait_max_ms", "max", "waited_ms"},
	{"job_started", "sum", "(final AND began IS NOT NULL)::int"},
	{"job_cpu_ns", "sum", "CASE WHEN final THEN cpu_ns END"},
	{"job_cpu_min", "min", "CASE WHEN final THEN cpu_ns END"},
	{"job_cpu_max", "max", "CASE WHEN final THEN cpu_ns END"},
	{"job_wait_us", "sum", "wait_us"},
	{"job_wait_min", "min", "wait_us"},
	{"job_wait_max", "max", "wait_us"},
	{"job_turn_us", "sum", "turn_us"},
	{"job_turn_min", "min", "turn_us"},
	{"job_turn_max", "max", "turn_us"},
	{"job_hog", "sum", "hog"},
	{"job_hog_min", "min", "hog"},
	{"job_hog_max", "max", "hog"},
	{"job_expansion", "sum", "round(turn_us::float8 / nullif(run_us, 0) * 1e9)::num"},
	{"job_run_us", "sum", "run_us"},
	{"first_ended", "min", "CASE WHEN final THEN ended END"},
	{"last_ended", "max", "CASE WHEN final THEN ended END"},
}

// pick are the facts of some names.
func pick(names ...string) []fact {
	out := make([]fact, len(names))
	for i, n := range names {
		out[i] = facts[slices.IndexFunc(facts, func(f fact) bool { return f.name == n })]
	}
	return out
}

// each joins what form makes of each fact.
func each(list []fact, form func(f *fact) string) string {
	parts := make([]string, len(list))
	for i := range list {
		parts[i] = form(&list[i])
	}
	return strings.Join(parts, ", ")
}

func factNames(list []fact) string { return each(list, func(f *fact) string { return f.name }) }

// total is the SQL that puts together what attempts or groups of them have; a sum of nothing is 0.
func (f *fact) total(sql string) string {
	x := f.how + "(" + sql + ")"
	if f.how == "sum" {
		x = "coalesce(" + x + ", 0)"
	}
	return x
}

// quick and exact are the SQL for what one attempt adds, in the database's floating point, or exactly, however great.
func (f *fact) quick() string { return strings.ReplaceAll(f.sql, "::num", "::float8") }
func (f *fact) exact() string { return strings.ReplaceAll(f.sql, "::num", "::numeric") }

// attempts completes the charges of a FROM item by what facts are reckoned from.
const attempts = "(SELECT *, round(held_ms(began, ended))::bigint AS ms, " + final + " AS final FROM %s) c"

// submittedOf is when the job of a charge c was submitted; an older batchd did not write it into the charge.
const submittedOf = `coalesce(c.submitted, (SELECT h.submitted FROM history h WHERE h.job = c.job), (SELECT j.submitted FROM jobs j WHERE j.id = c.job), c.began, c.ended)`

// jobTimes adds, for attempts with which a job was over, what bacct says of it; else null. OFFSET 0 lets each be worked out once for a
// row, not once for each sum.
const jobTimes = ` CROSS JOIN LATERAL (SELECT CASE WHEN final THEN ` + submittedOf + ` END AS since OFFSET 0) s
	CROSS JOIN LATERAL (SELECT CASE WHEN final THEN round(greatest(date_part('epoch', coalesce(c.began, c.ended) - since) * 1e6, 0))::bigint END AS wait_us,
		CASE WHEN final THEN round(greatest(date_part('epoch', c.ended - since) * 1e6, 0))::bigint END AS turn_us,
		CASE WHEN final THEN coalesce(round(greatest(date_part('epoch', c.ended - c.began) * 1e6, 0)), 0)::bigint END AS run_us OFFSET 0) t
	CROSS JOIN LATERAL (SELECT CASE WHEN final THEN coalesce(round(cpu_ns / nullif(turn_us, 0)::float8 * 1e6), 0) END::numeric AS hog OFFSET 0) g`
