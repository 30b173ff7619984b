package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/nodes"
	"fairslice/queue"
)

// slot_seconds and fgpu_seconds are what an older batchd reads, and LoadUsage. The job's row is written before its charges in the same
// commit, and goes after them.
const insertCharges = `INSERT INTO charges (job, idx, attempt, seq, user_name, account, queue, project, image, nodes, gpu_slices, outcome, verdict, consumables,
		began, ended, slot_seconds, fgpu_seconds, slots, memory, fgpu, gpus, suspended_ms, waited_ms, run_limit_ms,
		cpu_ns, max_memory, avg_memory, gpu_memory, sm_ns, sm_measured_ns, gpu_capacity, submitted)
	SELECT t.*, j.submitted FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
		$12::text[], $13::text[], $14::text[], $15::timestamptz[], $16::timestamptz[], $17::float8[], $18::float8[], $19::bigint[], $20::bigint[], $21::bigint[],
		$22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[], $30::bigint[], $31::bigint[], $32::bigint[])
		t(job) LEFT JOIN jobs j ON j.id = t.job`

// addCharges takes the nodes of the batch as well: whose slices were released is among them.
func (st *statements) addCharges(charges []chargeRow, changed []*nodes.Node) {
	n := len(charges)
	if n == 0 {
		return
	}
	job, seq, idx, attempt := make([]int64, n), make([]int64, n), make([]int32, n), make([]int32, n)
	began, ended := make([]*time.Time, n), make([]time.Time, n)
	slotSeconds, fgpuSeconds := make([]float64, n), make([]float64, n)
	capacity := make([]*int64, n)
	gpus := map[string]int64{}
	for _, node := range changed {
		for g := range node.GPUs {
			gpus[node.GPUs[g].UUID] = int64(node.GPUs[g].Capacity)
		}
	}
	var texts [10][]string // user_name to consumables
	var held [7][]int64    // slots to run_limit_ms; null in what an older version wrote
	var used [6][]int64    // cpu_ns to sm_measured_ns
	for i := range charges {
		c := &charges[i]
		job[i], seq[i], idx[i], attempt[i] = int64(c.id.Job), c.seq, int32(c.id.Index), int32(c.attempt)
		if !c.Began.IsZero() {
			began[i] = &c.Charge.Began
		}
		ended[i], slotSeconds[i], fgpuSeconds[i] = c.Ended, c.SlotSeconds(), c.FGPUSeconds()
		if names := c.Slices.Names(); len(names) > 0 {
			if have, ok := gpus[names[0]]; ok {
				capacity[i] = &have
			}
		}
		for k, v := range [...]string{c.User, c.Account, c.Queue, c.Project, c.Image, string(c.Nodes), string(c.Slices),
			string(c.Outcome), string(c.Verdict), string(c.Consumables)} {
			texts[k] = append(texts[k], text(v))
		}
		for k, v := range [...]int64{int64(c.Slots), c.Memory, int64(c.FGPU), int64(c.GPUs),
			c.Suspended.Milliseconds(), c.Waited.Milliseconds(), c.RunLimit.Milliseconds()} {
			held[k] = append(held[k], v)
		}
		for k, v := range [...]int64{int64(c.CPU), c.MaxMemory, c.AvgMemory, c.GPUMemory, int64(c.SMTime), int64(c.SMMeasured)} {
			used[k] = append(used[k], v)
		}
	}
	args := []any{job, idx, attempt, seq}
	for k := range texts {
		args = append(args, texts[k])
	}
	args = append(args, began, ended, slotSeconds, fgpuSeconds)
	for k := range held {
		args = append(args, held[k])
	}
	for k := range used {
		args = append(args, used[k])
	}
	st.batch.Queue(insertCharges, append(args, capacity)...)
}

// Charged is one recorded charge.
type Charged struct {
	ID      queue.ElementID
	Attempt int
	queue.Charge
}

// Charges calls fn for every charge of attempts that ended in [from, to), in no order; a zero time is no bound. What an
// older batchd recorded has amounts times seconds only: OldSlotTime and OldFGPUTime.
func (s *Store) Charges(ctx context.Context, from, to time.Time, fn func(Charged) error) error {
	var stop error
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT job, idx, attempt, user_name, account, queue, project, image, nodes, gpu_slices, outcome, verdict, consumables, began, ended,
			CASE WHEN older THEN slot_seconds ELSE 0 END, CASE WHEN older THEN fgpu_seconds ELSE 0 END,
			CASE WHEN older THEN 0 ELSE slots END, memory, CASE WHEN older THEN 0 ELSE fgpu END, gpus, suspended_ms, waited_ms, run_limit_ms,
			cpu_ns, max_memory, avg_memory, gpu_memory, sm_ns, sm_measured_ns
			FROM ledger WHERE ended >= $1 AND ended < $2`,
			bound(from, pgtype.NegativeInfinity), bound(to, pgtype.Infinity))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r Charged
			var began *time.Time
			var suspended, waited, limit int64
			if err := rows.Scan(&r.ID.Job, &r.ID.Index, &r.Attempt, &r.User, &r.Account, &r.Queue, &r.Project, &r.Image, &r.Nodes, &r.Slices,
				&r.Outcome, &r.Verdict, &r.Consumables, &began, &r.Ended, &r.OldSlotTime, &r.OldFGPUTime, &r.Slots, &r.Memory, &r.FGPU, &r.GPUs,
				&suspended, &waited, &limit, &r.CPU, &r.MaxMemory, &r.AvgMemory, &r.GPUMemory, &r.SMTime, &r.SMMeasured); err != nil {
				return err
			}
			if r.Ended = r.Ended.UTC(); began != nil {
				r.Began = began.UTC()
			}
			r.Suspended, r.Waited = time.Duration(suspended)*time.Millisecond, time.Duration(waited)*time.Millisecond
			r.RunLimit = time.Duration(limit) * time.Millisecond
			if stop = fn(r); stop != nil {
				return nil
			}
		}
		return rows.Err()
	})
	if stop != nil {
		return stop
	}
	return wrap(err, "read charges")
}
