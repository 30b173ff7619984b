package store

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
)

// leaseName: one lease for the one writer. The table could hold more.
const leaseName = "batchd"

// blobTouch is how stale a blob's last use may be before a new use is written down, see SweepBlobs.
const blobTouch = time.Hour

// statements is a batch on its way: one statement for each table, its rows as parallel arrays.
type statements struct {
	term   int64
	batch  pgx.Batch
	events eventColumns
}

type eventColumns struct {
	seq, job       []int64
	idx            []int32
	at             []time.Time
	by, kind, body []string
}

const insertEvents = `INSERT INTO events (seq, term, at, job, idx, by_user, kind, body)
	SELECT s, $1, a, j, i, b, k, d::json
	FROM unnest($2::bigint[], $3::timestamptz[], $4::bigint[], $5::int[], $6::text[], $7::text[], $8::text[]) t(s, a, j, i, b, k, d)`

// first_state, owner, submitted, token and identity never change.
const upsertJobs = `INSERT INTO jobs (id, owner, queue, name, submitted, token, position, first_state, script, env, spec, plan, identity)
	SELECT i, o, q, n, a, t, p, f, sh, eh, s::json, pl::json, idt::json
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::bigint[], $8::text[],
		$9::text[], $10::text[], $11::text[], $12::text[], $13::text[]) x(i, o, q, n, a, t, p, f, sh, eh, s, pl, idt)
	ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, name = excluded.name, position = excluded.position,
		script = excluded.script, env = excluded.env, spec = excluded.spec, plan = excluded.plan`

const upsertElements = `INSERT INTO elements (job, idx, state, attempts, live_attempt, since, attempt, result, more)
	SELECT j, i, s, n, nullif(l, 0), a, nullif(at, '')::json, nullif(r, '')::json, nullif(m, '')::json
	FROM unnest($1::bigint[], $2::int[], $3::text[], $4::int[], $5::int[], $6::timestamptz[], $7::text[], $8::text[], $9::text[])
		t(j, i, s, n, l, a, at, r, m)
	ON CONFLICT (job, idx) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, live_attempt = excluded.live_attempt,
		since = excluded.since, attempt = excluded.attempt, result = excluded.result, more = excluded.more`

const deleteSlices = `DELETE FROM slices s USING unnest($1::bigint[], $2::int[], $3::int[]) t(j, i, a)
	WHERE s.job = j AND s.idx = i AND s.attempt = a`

const insertSlices = `INSERT INTO slices (job, idx, attempt, node, uuid, amount, memory, sm_share, mode)
	SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::int[], $9::text[])`

const upsertNodes = `INSERT INTO nodes (id, slots, memory, used_slots, used_memory, row)
	SELECT i, s, m, us, um, r::json
	FROM unnest($1::text[], $2::int[], $3::bigint[], $4::int[], $5::bigint[], $6::text[]) t(i, s, m, us, um, r)
	ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, memory = excluded.memory,
		used_slots = excluded.used_slots, used_memory = excluded.used_memory, row = excluded.row`

// What is held changes with each start and end, the rest of a node hardly ever; so most commits leave row alone.
const updateNodes = `UPDATE nodes SET used_slots = us, used_memory = um
	FROM unnest($1::text[], $2::int[], $3::bigint[]) t(i, us, um) WHERE id = i`

// A node has several GPUs and a batch touches few of them: rows that stay the same are only looked at.
const upsertGPUs = `INSERT INTO gpus (node, uuid, model, capacity, used)
	SELECT n, u, m, c, us FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) t(n, u, m, c, us)
	LEFT JOIN gpus g ON g.node = n AND g.uuid = u WHERE (g.model, g.capacity, g.used) IS DISTINCT FROM (m, c, us)
	ON CONFLICT (node, uuid) DO UPDATE SET model = excluded.model, capacity = excluded.capacity, used = excluded.used`

// GPUs that a node came back without.
const deleteGPUs = `DELETE FROM gpus g WHERE g.node = ANY ($1::text[])
	AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::text[]) t(n, u) WHERE g.node = n AND g.uuid = u)`

const upsertQueues = `INSERT INTO queue_states (name, closed, inactive, reason)
	SELECT * FROM unnest($1::text[], $2::bool[], $3::bool[], $4::text[])
	ON CONFLICT (name) DO UPDATE SET closed = excluded.closed, inactive = excluded.inactive, reason = excluded.reason`

// The update locks the row even where its condition does not hold, which keeps SweepBlobs off until the commit.
const upsertBlobs = `INSERT INTO blobs (hash, data) SELECT * FROM unnest($1::text[], $2::bytea[]) ORDER BY 1
	ON CONFLICT (hash) DO UPDATE SET created = now() WHERE blobs.created < now() - $3::interval`

// A job ended with its last event before this one. (Its elements may have no rows, when they ended in this very batch.)
const forgetJobs = `WITH e AS (DELETE FROM elements WHERE job = ANY ($1::bigint[])),
	j AS (DELETE FROM jobs WHERE id = ANY ($1::bigint[]) RETURNING id, owner, queue, name, token, submitted)
	INSERT INTO history (job, owner, queue, name, token, submitted, ended)
	SELECT id, owner, queue, name, token, submitted, coalesce(
		(SELECT at FROM events WHERE job = id AND job <> 0 AND kind <> 'forgotten' ORDER BY seq DESC LIMIT 1), submitted) FROM j`

// prepare turns b into statements. The order matters: the guard first, freed before taken, GPUs before their slices.
func prepare(b *Batch) (*statements, error) {
	d, err := b.derive()
	if err != nil {
		return nil, err
	}
	st := &statements{term: b.Term}
	enc := newEncoder()
	first := int64(0)
	if len(b.Events) > 0 {
		first = b.Events[0].Seq
	}
	st.batch.Queue("SELECT guard_commit($1, $2, $3)", leaseName, b.Term, first)
	st.addEvents(enc, b.Events)
	st.addBlobs(b.Blobs)
	st.addJobs(enc, b.Jobs)
	st.addElements(enc, b.Elements)
	if n := len(d.freed); n > 0 {
		job, idx, attempt := make([]int64, n), make([]int32, n), make([]int32, n)
		for i, f := range d.freed {
			job[i], idx[i], attempt[i] = int64(f.id.Job), int32(f.id.Index), int32(f.attempt)
		}
		st.batch.Queue(deleteSlices, job, idx, attempt)
	}
	st.addNodes(enc, b.Nodes, d)
	st.addSlices(d.taken)
	st.addCharges(d.charges, b.Nodes)
	st.addCancelled(b.Events)
	st.addQueues(b.Queues)
	st.addReservations(enc, b.Reservations)
	st.addPolicy(b.Policy)
	st.addImages(enc, b.Images, b.Commits)
	st.addGPUHours(b.GPUHours)
	if len(b.Forgotten) > 0 {
		ids := make([]int64, len(b.Forgotten))
		for i, id := range b.Forgotten {
			ids[i] = int64(id)
		}
		st.batch.Queue(forgetJobs, ids)
	}
	if enc.err != nil {
		return nil, fmt.Errorf("encode: %w", enc.err)
	}
	return st, nil
}

func (st *statements) addEvents(enc *encoder, events []queue.Event) {
	if len(events) == 0 {
		return
	}
	n := len(events)
	c := &st.events
	*c = eventColumns{seq: make([]int64, n), job: make([]int64, n), idx: make([]int32, n), at: make([]time.Time, n),
		by: make([]string, n), kind: make([]string, n), body: make([]string, n)}
	for i := range events {
		ev := &events[i]
		c.seq[i], c.job[i], c.idx[i], c.at[i] = ev.Seq, int64(ev.Job), int32(ev.Index), ev.At
		c.by[i], c.kind[i], c.body[i] = text(ev.By), string(ev.Body.Kind()), enc.json(ev.Body)
	}
	st.batch.Queue(insertEvents, st.term, c.seq, c.at, c.job, c.idx, c.by, c.kind, c.body)
}
