package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/backfill/replay"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/reports/plot"
)

func historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "replay what this site has run under another policy, beside what it was",
		Description: "Takes the finished jobs that were submitted in a time, what they asked for, and how long they ran, and serves them\n" +
			"again on the hosts that there are today, from an empty start. Hosts that users named and jobs that waited for\n" +
			"others are not known to the replay.\n\n" +
			"Example: bsim history --from 2026-10-01 --to 2026-11-01 --policy conservative --plot october.svg",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "first `TIME` of submission: 2026-10-01, \"2026-10-01 08:00\", in local time, or RFC 3339"},
			&cli.StringFlag{Name: "to", Usage: "`TIME` before which they were submitted (default: now)"},
		}, append(policyFlags(),
			&cli.StringFlag{Name: "gpu-weight", Usage: "with --order fairshare: slots that one fGPU counts as, `W` (default: 0, slots alone count)"},
			&cli.StringFlag{Name: "memory-weight", Usage: "with --order fairshare: slots that one GiB of memory counts as, `W` (default: 0)"},
			&cli.StringFlag{Name: "plot", Usage: "draw what waited and what was used over time into `FILE` (SVG)"},
			&cli.BoolFlag{Name: "json", Usage: "the result as a JSON document"},
		)...),
		Action: func(c *cli.Context) error { return replayHistory(c, site{client.FromEnv(os.Getenv)}, time.Now()) },
	}
}

// source is where the past is known. Tests have their own.
type source interface {
	Hosts(ctx context.Context) ([]*nodes.Node, error)
	// Finished calls fn with every finished job that was submitted from one time on and before another; others may be among them.
	Finished(ctx context.Context, from, to time.Time, fn func(*queue.Job)) error
}

// compared is the answer of bsim history.
type compared struct {
	From      time.Time    `json:"from"`
	To        time.Time    `json:"to"`
	Policy    string       `json:"policy"`
	Order     string       `json:"order"`
	Actual    siteResult   `json:"actual"`
	Replayed  siteResult   `json:"replayed"`
	NeverRan  int          `json:"never_ran"`   // ended without having run
	NoRoomNow int          `json:"no_room_now"` // larger than any host of today
	Hosts     int          `json:"hosts"`
	Slots     int64        `json:"slots"`
	FGPU      nodes.Amount `json:"fgpu_hundredths"`
	Seconds   float64      `json:"seconds"`
}

type siteResult struct {
	replay.Result
	// GPUUtilisation is of fGPU, over the makespan; 0 where there are no GPUs.
	GPUUtilisation float64 `json:"gpu_utilisation"`
}

func replayHistory(c *cli.Context, from source, now time.Time) error {
	if err := require(c, "from"); err != nil {
		return err
	}
	p, err := choose(c)
	if err != nil {
		return err
	}
	weights, err := chooseWeights(c, p.Order)
	if err != nil {
		return err
	}
	out := &compared{Policy: p.Name, Order: p.Order, To: now}
	if out.From, err = moment("from", c.String("from")); err != nil {
		return err
	}
	if c.IsSet("to") {
		if out.To, err = moment("to", c.String("to")); err != nil {
			return err
		}
	}
	if !out.From.Before(out.To) {
		return wrong("from", c.String("from"), "a time before --to, "+out.To.Format(time.RFC3339))
	}
	cluster, past, err := readSite(c.Context, from, out)
	if err != nil {
		return err
	}
	begin := time.Now()
	bar := newProgress(c.App.ErrWriter, "replay")
	s, err := replay.Replay(past.Tasks, replay.Options{Nodes: cluster, Policy: p.policy, Weights: weights, Predict: p.Order == "default", Progress: bar.show, Stop: c.Context.Err})
	bar.end()
	if err != nil {
		return err
	}
	var starts []int64
	past, starts, out.NoRoomNow = past.Without(s)
	out.NeverRan, out.Seconds = past.NeverRan, time.Since(begin).Seconds()
	out.Actual, out.Replayed = out.summarise(past.Tasks, past.Starts), out.summarise(past.Tasks, starts)
	if len(past.Tasks) == 0 {
		return fmt.Errorf("no job that was submitted from %s to %s has run, ended, and fits the hosts of today", out.From.Format(time.RFC3339), out.To.Format(time.RFC3339))
	}
	if file := c.String("plot"); file != "" {
		if err := writeFile(file, func(w io.Writer) error { return plot.WriteSVG(w, out.plots(past, starts)...) }); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, out)
	}
	return out.print(c.App.Writer)
}

// moment reads a time of the command line, in this machine's time zone unless it names its own.
func moment(option, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime} {
		t, err := time.ParseInLocation(layout, text, time.Local)
		switch {
		case err != nil:
		case t.Year() < 1970 || t.Year() > 2200: // times travel as nanoseconds since 1970, in 64 bits
			return time.Time{}, wrong(option, text, "a time from 1970 to 2200")
		default:
			return t, nil
		}
	}
	return time.Time{}, wrong(option, text, "a time such as 2026-10-01, \"2026-10-01 08:00\" or 2026-10-01T08:00:00Z")
}

// readSite gets the hosts of today, with nothing on them, and the tasks of the past.
func readSite(ctx context.Context, from source, out *compared) ([]*nodes.Node, *replay.Past, error) {
	hosts, err := from.Hosts(ctx)
	if err != nil {
		return nil, nil, err
	}
	var cluster []*nodes.Node
	for _, h := range hosts {
		n := h.Empty()
		n.Alive, n.Closed = true, false
		cluster = append(cluster, n)
		out.Hosts++
		out.Slots += int64(n.Slots)
		for i := range n.GPUs {
			out.FGPU += n.GPUs[i].Capacity
		}
	}
	if out.Slots == 0 {
		return nil, nil, errors.New("this cluster has no host with slots: there is nothing to replay on")
	}
	var jobs []*queue.Job
	if err := from.Finished(ctx, out.From, out.To, func(j *queue.Job) { jobs = append(jobs, j) }); err != nil {
		return nil, nil, err
	}
	return cluster, replay.History(jobs, out.From, out.To), nil
}

func (o *compared) summarise(tasks []replay.Task, starts []int64) siteResult {
	r := siteResult{Result: replay.Summarise(tasks, starts, o.Slots)}
	if o.FGPU > 0 && r.Makespan > 0 {
		var work float64
		for i := range tasks {
			work += float64(tasks[i].FGPU) * float64(tasks[i].Run)
		}
		r.GPUUtilisation = work / (float64(o.FGPU) * float64(r.Makespan))
	}
	return r
}

func (o *compared) print(to io.Writer) error {
	var t table
	t.row("", "as it was", policyText(o.Policy, o.Order))
	t.row("jobs", fmt.Sprint(o.Actual.N), fmt.Sprint(o.Replayed.N))
	t.result(&o.Actual.Result, &o.Replayed.Result)
	if o.FGPU > 0 {
		t.row("fGPU utilisation", fmt.Sprintf("%.4f", o.Actual.GPUUtilisation), fmt.Sprintf("%.4f", o.Replayed.GPUUtilisation))
	}
	if err := t.print(to); err != nil {
		return err
	}
	var notes []string
	if o.NeverRan > 0 {
		notes = append(notes, fmt.Sprintf("%d ended without having run", o.NeverRan))
	}
	if o.NoRoomNow > 0 {
		notes = append(notes, fmt.Sprintf("%d need more than any of the %d hosts of today has", o.NoRoomNow, o.Hosts))
	}
	if notes != nil {
		fmt.Fprintf(to, "left out: %s\n", strings.Join(notes, ", "))
	}
	return nil
}

// plotParts is into how many parts of time a plot is cut.
const plotParts = 300

// plots are what waited and what was used over time, as it was and as it would have been.
func (o *compared) plots(past *replay.Past, starts []int64) []*plot.Plot {
	from, to := past.Tasks[0].Submit, past.Tasks[0].Submit+1
	for i, t := range past.Tasks {
		to = max(to, past.Starts[i]+t.Run, starts[i]+t.Run)
	}
	unit, length := timeUnit(to - from)
	x := make([]float64, plotParts)
	for i := range x {
		x[i] = (float64(i) + 0.5) / plotParts * float64(to-from) / length
	}
	panel := func(title, y string, spans func(t *replay.Task, start int64) replay.Span) *plot.Plot {
		p := &plot.Plot{Title: title, X: unit + " since " + time.Unix(from, 0).Format("2006-01-02 15:04"), Y: y}
		for _, line := range []struct {
			name   string
			starts []int64
		}{{"as it was", past.Starts}, {policyText(o.Policy, o.Order), starts}} {
			all := make([]replay.Span, len(past.Tasks))
			for i := range all {
				all[i] = spans(&past.Tasks[i], line.starts[i])
			}
			p.Series = append(p.Series, plot.Series{Name: line.name, X: x, Y: replay.Level(all, from, to, plotParts)})
		}
		return p
	}
	plots := []*plot.Plot{
		panel("Jobs that wait", "jobs", func(t *replay.Task, start int64) replay.Span {
			return replay.Span{Begin: t.Submit, End: start, Weight: 1}
		}),
		panel("Slots in use", fmt.Sprintf("%% of %d", o.Slots), func(t *replay.Task, start int64) replay.Span {
			return replay.Span{Begin: start, End: start + t.Run, Weight: 100 * float64(t.Procs) / float64(o.Slots)}
		}),
	}
	if o.FGPU > 0 {
		plots = append(plots, panel("GPUs in use", "% of "+o.FGPU.String()+" fGPU", func(t *replay.Task, start int64) replay.Span {
			return replay.Span{Begin: start, End: start + t.Run, Weight: 100 * float64(t.FGPU) / float64(o.FGPU)}
		}))
	}
	return plots
}

// timeUnit is the unit in which a time is read best, and its seconds.
func timeUnit(seconds int64) (string, float64) {
	switch {
	case seconds > 3*86400:
		return "days", 86400
	case seconds > 3*3600:
		return "hours", 3600
	case seconds > 3*60:
		return "minutes", 60
	}
	return "seconds", 1
}

// site is the cluster that the environment names.
type site struct{ config client.Config }

func (s site) Hosts(ctx context.Context) ([]*nodes.Node, error) {
	u, err := client.NewUsers(s.config)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	res, err := u.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	var all []*nodes.Node
	for _, h := range res.Hosts {
		n := wire.ToNode(h.Node)
		all = append(all, &n)
	}
	return all, nil
}

func (s site) Finished(ctx context.Context, from, to time.Time, fn func(*queue.Job)) error {
	u, err := client.NewUsers(s.config)
	if err != nil {
		return err
	}
	defer u.Close()
	// Whoever was submitted from then on had not ended before.
	sel := queue.Selection{User: "all", Scope: queue.ScopeFinished, Since: from, Until: to}
	return u.History(ctx, sel, func(page *pb.HistoryResponse) error {
		for _, h := range page.Jobs {
			events := make([]queue.Event, 0, len(h.Events))
			for _, e := range h.Events {
				ev, err := wire.ToEvent(e)
				if err != nil {
					return fmt.Errorf("job %d: %w", h.GetJob().GetId(), err)
				}
				events = append(events, ev)
			}
			if j := queue.Fold(events); j != nil {
				fn(j)
			}
		}
		return nil
	})
}
