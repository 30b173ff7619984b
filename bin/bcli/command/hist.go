package command

import (
	"fairslice/api/pb"
	"fairslice/bin/bcli/history"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func jobID(j *pb.Job) string { return show.ID(j) }

func bhistCommand() *command {
	return &command{run: bhist, Command: option.Command{
		Name: "bhist", Usage: "[options] [job ...]",
		Summary: "tells the history of jobs: how long each was in which state, and what happened to it",
		Example: "bhist                  your unfinished jobs\nbhist -l 1234          everything that happened to a job\nbhist -a -u alice -w",
		Options: []option.Option{
			{Name: "a", Group: "Which jobs", Help: "finished ones too"},
			{Name: "d", Help: "finished ones only"},
			{Name: "e", Help: "failed ones only"},
			{Name: "p", Help: "waiting ones"},
			{Name: "r", Help: "running ones"},
			{Name: "s", Help: "suspended ones"},
			optUser, optQueue, optName, optHost, optProject, optAccount,
			{Name: "n", Value: option.Required, Number: true, Arg: "NUMBER", Help: "of log files to read; all history is always read here"},
			{Name: "l", Group: "What is shown", Help: "each event"},
			{Name: "UF", Help: "as -l, with lines as long as they are"},
			optWide, optJSON, optNoHead,
			{Name: "b", Hidden: true},
		},
	}}
}

func bhist(c *call, p *option.Parsed) int {
	if !c.legal(p.Operands) {
		return failed
	}
	sel := selection(p)
	scoped(&sel, p)
	u, ok := c.connect()
	if !ok {
		return failed
	}
	long := p.Has("l") || p.Has("UF")
	doc := show.NewJSON("bhist", "JOBS")
	var missing []string
	var buf []byte
	n := 0
	var archived int64
	err := u.History(c.ctx, sel, func(page *pb.HistoryResponse) error {
		archived = max(archived, page.Archived)
		missing = append(missing, page.NotFound...)
		for _, h := range page.Jobs {
			n++
			buf = buf[:0]
			switch {
			case p.Has("json"):
				history.Record(doc, h, &c.style, long)
				continue
			case long:
				if n > 1 {
					buf = append(buf, show.Rule...)
				}
				buf = history.Long(buf, h, &c.style, !p.Has("UF"))
			default:
				if n == 1 && !p.Has("noheader") {
					buf = append(buf, history.Header...)
				}
				buf = history.Row(buf, h, &c.style, p.Has("w"))
			}
			c.write(buf)
		}
		return nil
	})
	if err != nil {
		return c.failErr(err)
	}
	defer c.archivedNote(archived)
	if p.Has("json") {
		for _, text := range missing {
			doc.Error(text)
		}
		c.write(doc.End(nil))
		if n == 0 && len(p.Operands) > 0 {
			return failed
		}
		return 0
	}
	if n == 0 {
		c.print("No matching job found\n") // on standard output, as LSF has it
		return failed
	}
	for _, text := range missing {
		c.say(show.Clean(text))
	}
	return 0
}
