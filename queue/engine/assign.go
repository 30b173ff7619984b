package engine

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// assign sends an attempt to its node once it is durable. If the node is not connected, it gets the
// assignment when it is: see nodeJoined.
func (t *tx) assign(j *queue.Job, el *queue.Element) {
	a := t.e.assignment(j, el)
	cores := t.e.coreCount(j, el)
	node := el.Attempt.Alloc[0].Node
	t.after = append(t.after, func() { t.e.send(node, a, cores) })
}

// coreCount sets the variables that the image says programs learn the number of their cores from. What the user has set counts more.
func (e *Engine) coreCount(j *queue.Job, el *queue.Element) (env [][]byte) {
	i := e.catalogued(j)
	if i == nil {
		return nil
	}
	labels, err := images.ParseLabels(i.Labels)
	if err != nil { // of another version of batchd, which understood them
		return nil
	}
	for _, name := range labels.CoreCountEnv {
		env = append(env, fmt.Appendf(nil, "%s=%d", name, max(el.Attempt.Alloc[0].Slots, 1)))
	}
	return env
}

// send fills in the script and the environment, over what cores has, and hands the assignment to the hub.
func (e *Engine) send(node nodes.ID, a queue.Assignment, cores [][]byte) {
	ctx := context.Background()
	script, err := e.blob(ctx, a.Spec.ScriptHash)
	if err == nil {
		a.Script = script
		var env []byte
		if env, err = e.blob(ctx, a.Spec.EnvHash); err == nil {
			var base [][]byte
			if base, err = unpackEnv(env); err == nil {
				a.Env = append(append(cores, base...), a.Env...)
			}
		}
	}
	if err != nil {
		e.cfg().Logger.Error("assignment not sent: its script cannot be read", "job", a.ID.String(), "error", err)
		failed := queue.Report{ID: a.ID, Attempt: a.Attempt, At: e.cfg().Now(), Kind: queue.ReportFailed, Code: "script", Detail: err.Error()}
		go func() { // not here: the writer waits for us
			if err := e.NodeReport(ctx, node, failed); err != nil {
				e.cfg().Logger.Debug("failed start not noted: the engine is stopping", "job", a.ID.String(), "error", err)
			}
		}()
		return
	}
	if err := e.hub.Assign(node, a); err != nil {
		e.cfg().Logger.Debug("assignment waits for the node", "job", a.ID.String(), "node", node, "error", err)
	}
}

// assignment works out all but the script and the submission environment. Called with the book locked.
func (e *Engine) assignment(j *queue.Job, el *queue.Element) queue.Assignment {
	s := j.Spec
	q := e.cfg().queue(j.Queue)
	image, _ := e.cfg().image(s, q) // checked at submission; an image removed since fails at the node
	expand := func(file string) string { return jobPath(s, expandName(file, j, el)) }
	a := queue.Assignment{
		ID: j.ElementID(el.Index), Attempt: el.Attempt.Number, Owner: j.Owner, Spec: s,
		Alloc: el.Attempt.Alloc, RunLimit: el.Attempt.RunLimit, MemoryLimit: j.Plan.MemoryMax,
		ImageFile: image, CWD: s.SubCWD, Stdin: jobPath(s, expandName(s.Stdin, j, el)),
		Stdout:      dirOutput(expand(s.Stdout), s.Stdout, j, el, ".out"),
		Stderr:      dirOutput(expand(s.Stderr), s.Stderr, j, el, ".err"),
		DisplayName: j.DisplayName(el.Index), Queue: j.Queue, Cluster: e.cfg().Cluster, Submitted: j.Submitted,
		Report:   e.cfg().JobReport && !s.Interactive.Session() && s.Stdout != "/dev/null",
		Deadline: s.Terminate, Binds: e.cfg().Binds, Unfenced: q != nil && q.Unfenced,
	}
	if s.CWD != "" {
		a.CWD, a.CreateCWD = expand(s.CWD), true
	}
	if s.Writable && q != nil {
		a.OverlaySize = q.OverlaySize
	}
	a.Env = e.jobEnv(j, el, &a)
	if i := e.catalogued(j); i != nil && !(q != nil && q.Container == "never") {
		a.Image = &queue.NodeImage{Name: i.Ref.String(), Digest: i.Digest, Size: i.Size, Public: i.Visibility == images.Public}
	}
	return a
}

// dirOutput is LSF's rule that -o DIR/ writes DIR/<job>.out.
func dirOutput(file, given string, j *queue.Job, el *queue.Element, suffix string) string {
	if !strings.HasSuffix(given, "/") {
		return file
	}
	name := strconv.FormatInt(int64(j.ID), 10)
	if el.Index > 0 {
		name += "." + strconv.Itoa(el.Index)
	}
	return path.Join(file, name+suffix)
}

// expandName replaces %J and %I; %I is 0 for a job that is no array, as in LSF.
func expandName(file string, j *queue.Job, el *queue.Element) string {
	if !strings.Contains(file, "%") {
		return file
	}
	return strings.NewReplacer("%J", strconv.FormatInt(int64(j.ID), 10), "%I", strconv.Itoa(el.Index)).Replace(file)
}

// maxHostsEnv is LSF's bound: a longer LSB_HOSTS is left out.
const maxHostsEnv = 4096

// jobEnv is what LSF sets in a job's environment, and our own variables.
func (e *Engine) jobEnv(j *queue.Job, el *queue.Element, a *queue.Assignment) [][]byte {
	s := j.Spec
	var hosts, counts []string
	slots := 0
	for _, x := range el.Attempt.Alloc {
		slots += x.Slots
		counts = append(counts, string(x.Node), strconv.Itoa(x.Slots))
		for range x.Slots {
			hosts = append(hosts, string(x.Node))
		}
	}
	id := a.ID.String()
	env := []string{
		"LSB_JOBID=" + strconv.FormatInt(int64(j.ID), 10), "LSB_BATCH_JID=" + id,
		"LSB_JOBINDEX=" + strconv.Itoa(el.Index), "LSB_JOBNAME=" + a.DisplayName, "LSB_QUEUE=" + j.Queue,
		"LSB_SUB_HOST=" + s.SubHost, "LSB_SUB_USER=" + j.Owner.User, "LSFUSER=" + j.Owner.User,
		"LSB_MCPU_HOSTS=" + strings.Join(counts, " "), "LSB_DJOB_NUMPROC=" + strconv.Itoa(slots),
		"LSB_MAX_NUM_PROCESSORS=" + strconv.Itoa(max(s.MaxSlots, slots)), "LS_SUBCWD=" + s.SubCWD,
		"LSB_PROJECT_NAME=" + projectOf(s), "LSB_TRAPSIGS=trap # 15 10 12 2 1", "LSB_EXIT_PRE_ABORT=99",
		"FAIRSLICE_JOB=" + id, "FAIRSLICE_ATTEMPT=" + a.ID.AttemptKey(a.Attempt),
	}
	if all := strings.Join(hosts, " "); len(all) <= maxHostsEnv {
		env = append(env, "LSB_HOSTS="+all)
	}
	if s.Array != nil {
		env = append(env, "LSB_JOBINDEX_END="+strconv.Itoa(s.Array.Last()), "LSB_JOBINDEX_STEP="+strconv.Itoa(step(s.Array, el.Index)))
	}
	for name, v := range map[string]string{"LSB_OUTPUTFILE": a.Stdout, "LSB_ERRORFILE": a.Stderr, "LSB_INPUTFILE": a.Stdin} {
		if v != "" {
			env = append(env, name+"="+v)
		}
	}
	if s.Interactive.Session() {
		env = append(env, "LSB_INTERACTIVE=Y")
	}
	if el.Attempts > 1 {
		env = append(env, "LSB_RESTART=Y")
	}
	env = append(env, gpuEnv(el.Attempt.Alloc[0])...)
	out := make([][]byte, len(env))
	for i, v := range env {
		out[i] = []byte(v)
	}
	return out
}

// gpuEnv tells the job which GPUs its slices lie on. It is information, not a fence.
func gpuEnv(a nodes.Allocation) []string {
	if len(a.Slices) == 0 {
		// An empty list, so that a job without a GPU does not find those of others by default.
		return []string{"CUDA_VISIBLE_DEVICES="}
	}
	var uuids, shares []string
	for _, s := range a.Slices {
		uuids = append(uuids, s.UUID)
		shares = append(shares, fmt.Sprintf("%d:%s", s.Index, s.Amount))
	}
	return []string{
		"CUDA_VISIBLE_DEVICES=" + strings.Join(uuids, ","), "GPU_COUNT=" + strconv.Itoa(len(a.Slices)),
		"FAIRSLICE_FGPU=" + a.FGPU().String(), "FAIRSLICE_GPU_SLICES=" + strings.Join(shares, ","),
		"FAIRSLICE_GPU_MODE=" + string(a.Slices[0].Mode),
	}
}

func step(a *queue.Array, index int) int {
	for _, r := range a.Ranges {
		if index >= r.First && index <= r.Last {
			return max(r.Step, 1)
		}
	}
	return 1
}

func projectOf(s *queue.Spec) string {
	if s.Project == "" {
		return "default"
	}
	return s.Project
}
