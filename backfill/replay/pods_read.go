package replay

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"fairslice/nodes"
)

// Pod is a line of an Alibaba GPU trace (cluster-trace-gpu-v2023): what is asked of one node. Slots are thousandths
// of a CPU, GPU amounts hundredths of a GPU: one GPU is one fGPU.
type Pod struct {
	Name    string
	Request nodes.Request
	Models  []string // the node's GPU model is one of these; none means any
}

// accepts says that n is one of the nodes that the pod may use.
func (p *Pod) accepts(n *nodes.Node) bool {
	return len(p.Models) == 0 || len(n.GPUs) > 0 && slices.Contains(p.Models, n.GPUs[0].Model)
}

// among is the request with its choice of models, as placement.Mix reads it.
func (p *Pod) among() nodes.Request {
	r := p.Request
	r.GPU.Model = strings.Join(p.Models, "|")
	return r
}

// gpus is all that the pod asks for, perGPU what of one GPU.
func (p *Pod) gpus() nodes.Amount {
	return p.Request.GPU.Amount + nodes.Amount(p.Request.GPU.Whole)*nodes.OneFGPU
}

func (p *Pod) perGPU() nodes.Amount { return min(p.gpus(), nodes.OneFGPU) }

// The columns of the trace. A file of pods has all of them, or the first five.
var (
	nodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	podColumns  = []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
		"creation_time", "deletion_time", "scheduled_time"}
)

const fewPodColumns = 5

// Bounds of what is believed of a trace, so that sums cannot overflow.
const (
	maxMilliCPU  = 100_000_000
	maxMiB       = 1 << 34
	maxNodeGPUs  = 64
	maxTraceTime = 1 << 40 // seconds
)

// ReadNodes reads a file of nodes, such as openb_node_list_gpu_node.csv. Each GPU is one fGPU. The first line that is not
// understood is an error with its number.
func ReadNodes(from io.Reader) ([]*nodes.Node, error) {
	var out []*nodes.Node
	seen := map[string]bool{}
	err := readTable(from, [][]string{nodeColumns}, func(f *fields) {
		id := f.name("sn", seen)
		n := &nodes.Node{ID: nodes.ID(id), Alive: true, Slots: int(f.number("cpu_milli", maxMilliCPU)),
			Memory: f.number("memory_mib", maxMiB) << 20}
		count, model := int(f.number("gpu", maxNodeGPUs)), f.text("model")
		if (count == 0) != (model == "") {
			f.fail("model", "a node has a GPU model exactly when it has GPUs")
		}
		if !oneModel(model) && model != "" {
			f.fail("model", "want letters, digits, dots, dashes, underscores, as in V100M32")
		}
		for i := range count {
			n.GPUs = append(n.GPUs, nodes.GPU{Index: i, UUID: fmt.Sprintf("%s/%d", id, i), Model: model,
				Capacity: nodes.OneFGPU, Mode: nodes.ModeCount, Simulated: true})
		}
		out = append(out, n)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ReadPods reads a file of pods, such as openb_pod_list_default.csv. The first line that is not understood is an error with its number.
func ReadPods(from io.Reader) ([]Pod, error) {
	var out []Pod
	seen := map[string]bool{}
	err := readTable(from, [][]string{podColumns, podColumns[:fewPodColumns]}, func(f *fields) {
		p := Pod{Name: f.name("name", seen)}
		p.Request.Slots = int(f.number("cpu_milli", maxMilliCPU))
		p.Request.Memory = f.number("memory_mib", maxMiB) << 20
		p.Request.GPU = f.gpus()
		if len(f.columns) == len(podColumns) {
			p.Models = f.models("gpu_spec")
			if len(p.Models) > 0 && p.Request.GPU.Zero() {
				f.fail("gpu_spec", "a pod without a GPU cannot choose its model")
			}
			for _, column := range []string{"creation_time", "deletion_time", "scheduled_time"} {
				if f.text(column) != "" { // empty: it has not happened
					f.number(column, maxTraceTime)
				}
			}
		}
		out = append(out, p)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readTable calls line for each line below the header, which must be one of these.
func readTable(from io.Reader, headers [][]string, line func(*fields)) error {
	in := csv.NewReader(from)
	in.ReuseRecord = true
	first, err := in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("line 1: the file is empty; want the columns %s", strings.Join(headers[0], ","))
	case err != nil:
		return csvError(err)
	}
	known := slices.IndexFunc(headers, func(h []string) bool { return slices.Equal(h, first) })
	if known < 0 {
		return fmt.Errorf("line 1: the columns are %q; want %s", strings.Join(first, ","), strings.Join(headers[0], ","))
	}
	f := &fields{columns: headers[known]}
	for {
		f.values, err = in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return csvError(err)
		}
		f.line, _ = in.FieldPos(0)
		if line(f); f.err != nil {
			return f.err
		}
	}
}

func csvError(err error) error {
	if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("line %d: %w", bad.Line, bad.Err)
	}
	return err
}

// fields is one line by column. The first mistake stays in err.
type fields struct {
	columns []string
	values  []string
	line    int
	err     error
}

func (f *fields) text(column string) string { return f.values[slices.Index(f.columns, column)] }

func (f *fields) fail(column, why string) {
	if f.err == nil {
		f.err = fmt.Errorf("line %d: %s %q: %s", f.line, column, f.text(column), why)
	}
}

// number reads a whole number from 0 to most, digits only.
func (f *fields) number(column string, most int64) int64 {
	text := f.text(column)
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil || int64(v) > most {
		f.fail(column, fmt.Sprintf("want a whole number from 0 to %d", most))
		return 0
	}
	return int64(v)
}

// name reads a name that no line before has.
func (f *fields) name(column string, seen map[string]bool) string {
	s := f.text(column)
	switch {
	case s == "" || strings.ContainsAny(s, " \t\r\n"):
		f.fail(column, "want a name without blanks")
	case seen[s]:
		f.fail(column, "another line has this name")
	}
	seen[s] = true
	return s
}

// gpus reads num_gpu and gpu_milli: no GPU, a part of one in steps of 10/1000, or whole ones.
func (f *fields) gpus() (r nodes.GPURequest) {
	count, milli := f.number("num_gpu", maxNodeGPUs), f.number("gpu_milli", 1000)
	switch {
	case count == 0 && milli == 0:
	case count >= 1 && milli == 1000:
		r.Whole = int(count)
	case count == 1 && milli > 0 && milli%10 == 0:
		r.Amount = nodes.Amount(milli / 10)
	case count == 1:
		f.fail("gpu_milli", "want 10 to 1000 in steps of 10: GPUs are counted in hundredths")
	case count == 0:
		f.fail("gpu_milli", "want 0 for a pod without a GPU")
	default:
		f.fail("gpu_milli", "want 1000: several GPUs are whole ones")
	}
	return r
}

// models reads alternatives as in "V100M16|V100M32". Doubles, which the trace has, are left out.
func (f *fields) models(column string) (out []string) {
	text := f.text(column)
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, "|") {
		if !oneModel(one) {
			f.fail(column, "want GPU models separated by |, as in V100M16|V100M32")
			return nil
		}
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

func oneModel(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune("._-", c))
	}) < 0
}
