package store

import (
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

func (st *statements) addJobs(enc *encoder, jobs []*queue.Job) {
	var (
		id, position                      []int64
		owner, name, in, token, first     []string
		script, env, spec, plan, identity []string
		submitted                         []time.Time
		seen                              = make(map[queue.JobID]bool, len(jobs))
	)
	for _, j := range jobs {
		if seen[j.ID] {
			continue
		}
		seen[j.ID] = true
		state := queue.Pend
		if j.Spec.Hold {
			state = queue.PSusp
		}
		id, position, submitted = append(id, int64(j.ID)), append(position, j.Position), append(submitted, j.Submitted)
		owner, in, name = append(owner, text(j.Owner.User)), append(in, text(j.Queue)), append(name, text(j.Spec.Name))
		token, first = append(token, text(j.Token)), append(first, string(state))
		script, env = append(script, text(j.Spec.ScriptHash)), append(env, text(j.Spec.EnvHash))
		spec, plan = append(spec, enc.json(j.Spec)), append(plan, enc.json(&j.Plan))
		identity = append(identity, enc.json(&j.Owner))
	}
	if len(id) > 0 {
		st.batch.Queue(upsertJobs, id, owner, in, name, submitted, token, position, first, script, env, spec, plan, identity)
	}
}

func (st *statements) addElements(enc *encoder, rows []ElementRow) {
	var (
		job                           []int64
		idx, attempts, live           []int32
		state, attempt, result, extra []string
		since                         []time.Time
		seen                          = make(map[queue.ElementID]bool, len(rows))
	)
	for _, r := range rows {
		e := r.Element
		if key := (queue.ElementID{Job: r.Job, Index: e.Index}); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		job, idx = append(job, int64(r.Job)), append(idx, int32(e.Index))
		state, since = append(state, string(e.State)), append(since, e.Since)
		attempts = append(attempts, int32(e.Attempts))
		var l int32 // 0 is null
		var a, res, m string
		if e.Attempt != nil {
			a = enc.json(e.Attempt)
			if e.State.Live() {
				l = int32(e.Attempt.Number)
			}
		}
		if e.Result != nil {
			res = enc.json(e.Result)
		}
		if x := moreOf(e); x != (more{}) {
			m = enc.json(&x)
		}
		live, attempt, result, extra = append(live, l), append(attempt, a), append(result, res), append(extra, m)
	}
	if len(job) > 0 {
		st.batch.Queue(upsertElements, job, idx, state, attempts, live, since, attempt, result, extra)
	}
}

func (st *statements) addNodes(enc *encoder, ns []*nodes.Node, d *derived) {
	var (
		id, row, heldID, gpuNode, uuid, model []string
		slots, usedSlots, heldSlots           []int32
		memory, usedMemory, heldMemory        []int64
		capacity, used                        []int64
		seen                                  = make(map[nodes.ID]bool, len(ns))
		gone                                  []string // nodes whose vanished GPUs must go
	)
	for _, n := range ns {
		if seen[n.ID] {
			continue
		}
		seen[n.ID] = true
		name := text(string(n.ID))
		if d.changed != nil && !d.changed[n.ID] {
			heldID, heldSlots, heldMemory = append(heldID, name), append(heldSlots, int32(n.UsedSlots)), append(heldMemory, n.UsedMemory)
		} else {
			id, row = append(id, name), append(row, enc.json(n))
			slots, usedSlots = append(slots, int32(n.Slots)), append(usedSlots, int32(n.UsedSlots))
			memory, usedMemory = append(memory, n.Memory), append(usedMemory, n.UsedMemory)
		}
		for i := range n.GPUs {
			g := &n.GPUs[i]
			gpuNode, uuid, model = append(gpuNode, name), append(uuid, text(g.UUID)), append(model, text(g.Model))
			capacity, used = append(capacity, int64(g.Capacity)), append(used, int64(g.Used))
		}
	}
	if len(id) > 0 {
		st.batch.Queue(upsertNodes, id, slots, memory, usedSlots, usedMemory, row)
	}
	if len(heldID) > 0 {
		st.batch.Queue(updateNodes, heldID, heldSlots, heldMemory)
	}
	if len(uuid) > 0 {
		st.batch.Queue(upsertGPUs, gpuNode, uuid, model, capacity, used)
	}
	for _, n := range d.joined {
		if seen[n] {
			gone = append(gone, text(string(n)))
		}
	}
	if len(gone) > 0 {
		st.batch.Queue(deleteGPUs, gone, gpuNode, uuid)
	}
}

func (st *statements) addSlices(held []heldSlice) {
	n := len(held)
	if n == 0 {
		return
	}
	job, amount, memory := make([]int64, n), make([]int64, n), make([]int64, n)
	idx, attempt, share := make([]int32, n), make([]int32, n), make([]int32, n)
	node, uuid, mode := make([]string, n), make([]string, n), make([]string, n)
	for i := range held {
		h := &held[i]
		job[i], idx[i], attempt[i] = int64(h.id.Job), int32(h.id.Index), int32(h.attempt)
		node[i], uuid[i], mode[i] = text(string(h.node)), text(h.UUID), text(string(h.Mode))
		amount[i], memory[i], share[i] = int64(h.Amount), h.Memory, int32(h.SMShare)
	}
	st.batch.Queue(insertSlices, job, idx, attempt, node, uuid, amount, memory, share, mode)
}

func (st *statements) addQueues(queues map[string]queue.QueueState) {
	var name, reason []string
	var closed, inactive []bool
	for n, q := range queues {
		name, reason = append(name, text(n)), append(reason, text(q.Reason))
		closed, inactive = append(closed, q.Closed), append(inactive, q.Inact)
	}
	if len(name) > 0 {
		st.batch.Queue(upsertQueues, name, closed, inactive, reason)
	}
}

func (st *statements) addBlobs(blobs map[string][]byte) {
	var hash []string
	var data [][]byte
	for h, d := range blobs {
		if d == nil {
			d = []byte{} // nil would be null
		}
		hash, data = append(hash, text(h)), append(data, d)
	}
	if len(hash) > 0 {
		st.batch.Queue(upsertBlobs, hash, data, blobTouch)
	}
}
