package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"fairslice/backfill/replay"
)

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "replay a trace in the Standard Workload Format",
		Description: "Jobs are served as the trace asks for them: processors requested (or allocated, where none are), killed at the\n" +
			"requested time. Jobs without a run time, a requested time or processors, and those larger than the machine, are\n" +
			"left out and counted.\n\n" +
			"Example: bsim replay --trace KTH-SP2-1996-2.1-cln.swf.gz --procs 100 --policy easy --order sjf",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "trace", Usage: "`FILE` in SWF, packed by gzip or not; - is standard input"},
			&cli.StringFlag{Name: "procs", Usage: "processors of the machine, `P` (default: what the trace says, MaxProcs)"},
		}, append(policyFlags(),
			&cli.BoolFlag{Name: "perfect", Usage: "as if users knew: the requested time is the run time"},
			&cli.StringFlag{Name: "compress", Usage: "multiply submit times by `F`: below 1, work arrives faster"},
			&cli.StringFlag{Name: "starts", Usage: "write a line \"id start\" for each job to `FILE`"},
			&cli.BoolFlag{Name: "skip-bad", Usage: "leave out lines that are not of the format, and count them"},
			&cli.BoolFlag{Name: "json", Usage: "the result as a JSON document"},
		)...),
		Action: replayTrace,
	}
}

// replayed is the answer of bsim replay.
type replayed struct {
	Trace    string  `json:"trace"`
	Procs    int64   `json:"procs"`
	Policy   string  `json:"policy"`
	Order    string  `json:"order"`
	Perfect  bool    `json:"perfect"`
	Compress float64 `json:"compress,omitempty"`
	replay.Result
	Dropped  int            `json:"dropped"`
	Why      replay.Dropped `json:"dropped_because"`
	BadLines int            `json:"bad_lines"`
	Passes   int            `json:"passes"`
	Seconds  float64        `json:"seconds"` // all of it, reading too
	Planning float64        `json:"replay_seconds"`
}

func replayTrace(c *cli.Context) error {
	if err := require(c, "trace"); err != nil {
		return err
	}
	p, err := choose(c)
	if err != nil {
		return err
	}
	var change replay.Change
	if change.Compress, err = decimal(c, "compress", 1000); err != nil {
		return err
	}
	procs, err := whole(c, "procs", 1, math.MaxInt32)
	if err != nil {
		return err
	}
	begin := time.Now()
	trace, err := readTrace(c)
	if err != nil {
		return err
	}
	if procs == 0 {
		if procs, _ = trace.Number("MaxProcs"); procs < 1 || procs > math.MaxInt32 {
			return usageError{fmt.Errorf("--procs is missing, and %s does not say MaxProcs", c.String("trace"))}
		}
	}
	if c.Bool("perfect") {
		change.Estimate = replay.Perfect
	}
	tasks, dropped, err := replay.Workload(trace.Jobs, procs, change)
	if err != nil {
		return err
	}
	middle := time.Now()
	bar := newProgress(c.App.ErrWriter, "replay")
	s, err := replay.Replay(tasks, replay.Options{Nodes: replay.Machine(procs), Policy: p.policy, Predict: p.Order == "default", Progress: bar.show, Stop: c.Context.Err})
	bar.end()
	if err != nil {
		return err
	}
	out := &replayed{Trace: c.String("trace"), Procs: procs, Policy: p.Name, Order: p.Order, Perfect: c.Bool("perfect"), Compress: change.Compress,
		Result: replay.Summarise(tasks, s.Starts, procs), Dropped: dropped.Sum(), Why: dropped, BadLines: trace.Bad, Passes: s.Passes,
		Seconds: time.Since(begin).Seconds(), Planning: time.Since(middle).Seconds()}
	if file := c.String("starts"); file != "" {
		if err := writeFile(file, func(w io.Writer) error { return replay.WriteStarts(w, tasks, s.Starts) }); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, out)
	}
	if trace.Bad > 0 {
		fmt.Fprintf(c.App.ErrWriter, "bsim: %d bad lines left out; the first: %v\n", trace.Bad, trace.FirstBad)
	}
	return out.print(c.App.Writer)
}

func readTrace(c *cli.Context) (*replay.Trace, error) {
	name, from := c.String("trace"), io.Reader(c.App.Reader)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	trace, err := replay.ReadSWF(from, c.Bool("skip-bad"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", name, err, skipHint(err))
	}
	return trace, nil
}

// print is the result for people.
func (r *replayed) print(to io.Writer) error {
	var t table
	t.row("trace", r.Trace)
	t.row("machine", fmt.Sprintf("%d processors", r.Procs))
	policy := policyText(r.Policy, r.Order)
	if r.Perfect {
		policy += ", perfect estimates"
	}
	if r.Compress != 0 {
		policy += fmt.Sprintf(", submit times x %g", r.Compress)
	}
	t.row("policy", policy)
	t.row("jobs", fmt.Sprintf("%d%s", r.N, dropNote(r.Why)))
	t.result(&r.Result)
	t.row("seconds used", fmt.Sprintf("%.2f, of which %.2f for %d plans", r.Seconds, r.Planning, r.Passes))
	return t.print(to)
}
