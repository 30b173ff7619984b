package command

import (
	"cmp"
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bappCommand() *command {
	return &command{run: bapp, Command: option.Command{
		Name: "bapp", Usage: "[options] job [app|port]",
		Summary: "opens an app of a session, such as Jupyter: starts it if need be, prints a link",
		Example: `bapp 1234                      what apps there are
bapp 1234 jupyter              a link to it for the browser, good for as long as the session runs
bapp 1234 5000                 the same for a port that a program of yours listens at
bapp -L 8888:jupyter 1234      forwards port 8888 of this machine until Ctrl-C
bapp -L 5432:5432 1234         the same for any port: databases, debuggers`,
		Options: []option.Option{
			{Name: "L", Value: option.Required, Arg: "[PORT:]APP|PORT", Help: "forward PORT of this machine, on 127.0.0.1, to the app; may be repeated"},
			optJSON, optNoHead,
		},
	}}
}

func bapp(c *call, p *option.Parsed) int {
	switch {
	case len(p.Operands) == 0:
		return c.fail("bapp: name the job: bapp job [app] (bjobs -r lists what runs)")
	case len(p.Operands) > 2 || len(p.Operands) > 1 && p.Has("L"):
		return c.fail("bapp: one job and one app, or -L and one job")
	case p.Has("json") && (p.Has("L") || len(p.Operands) > 1):
		return c.fail("bapp: -json is for the list of a job's apps")
	case !c.legal(p.Operands[:1]):
		return failed
	case p.Has("L"):
		return c.forward(p.All("L"), p.Operands[0])
	case len(p.Operands) == 1:
		return c.apps(p)
	}
	job, name := p.Operands[0], p.Operands[1]
	u, ok := c.connect()
	if !ok {
		return failed
	}
	app, err := openApp(c, u, job, name)
	if err != nil {
		return c.failErr(err)
	}
	if app.Url == "" {
		what := "this cluster shows no apps to browsers ([web] apps_domain in fairslice.toml)"
		if app.Proto != "http" && app.Proto != "preopen" {
			what = "its protocol is " + show.Clean(app.Proto) + ", not HTTP"
		}
		return c.fail("bapp: " + show.Clean(name) + " runs, at port " + strconv.Itoa(int(app.Port)) + ", but " + what + ". This forwards it: bapp -L " + strconv.Itoa(int(app.Port)) + ":" + show.Clean(name) + " " + show.Clean(job))
	}
	c.print(show.Clean(app.Url) + "\n")
	c.say("Open it in a browser. It lets in whoever has it, as you, until the session ends.")
	return 0
}

// openApp asks for one app, which is then running.
func openApp(c *call, u Users, job, name string) (*pb.AppInfo, error) {
	res, err := u.Apps(c.ctx, &pb.AppsRequest{Id: job, Open: name})
	if err != nil {
		return nil, err
	}
	if len(res.Apps) != 1 {
		return nil, errNoAnswer
	}
	return res.Apps[0], nil
}

// apps lists.
func (c *call) apps(p *option.Parsed) int {
	u, ok := c.connect()
	if !ok {
		return failed
	}
	res, err := u.Apps(c.ctx, &pb.AppsRequest{Id: p.Operands[0]})
	if err != nil {
		return c.failErr(err)
	}
	if p.Has("json") {
		return c.document("APPS", nil, len(res.Apps), func(doc *show.JSON, i int) { appRecord(doc, res.Apps[i]) })
	}
	var shown []*pb.AppInfo
	for _, a := range res.Apps {
		if a.Running || a.Startable || a.Port != 0 || a.Failed != "" {
			shown = append(shown, a)
		}
	}
	if len(shown) == 0 {
		c.say("No app found: neither the image nor the site has one that this session can run (bapp job port opens a port of yours)")
		return 0
	}
	rows := [][]string{}
	if !p.Has("noheader") {
		rows = append(rows, []string{"NAME", "PROTO", "PORT", "STATE"})
	}
	for _, a := range shown {
		rows = append(rows, []string{show.Clean(a.Name), show.Clean(a.Proto), cmp.Or(portOf(a), "-"), appState(a)})
	}
	for _, r := range rows {
		c.print(pad(r[0], 16) + pad(r[1], 8) + pad(r[2], 8) + r[3] + "\n")
	}
	for _, a := range shown {
		if a.Failed != "" {
			c.say("App " + show.Clean(a.Name) + " could not be started: " + show.CleanText(strings.TrimPrefix(a.Failed, a.Name+": ")))
		}
	}
	return 0
}

func pad(s string, width int) string { return s + strings.Repeat(" ", max(1, width-len(s))) }

func portOf(a *pb.AppInfo) string {
	if a.Port == 0 {
		return ""
	}
	return strconv.Itoa(int(a.Port))
}

// appState is a word for what can be done with an app.
func appState(a *pb.AppInfo) string {
	switch {
	case a.Running:
		return "running"
	case a.Failed != "":
		return "failed"
	case a.Startable:
		return "not started"
	case a.Proto == "preopen":
		return "yours to start"
	}
	return "no program"
}

func appRecord(doc *show.JSON, a *pb.AppInfo) {
	doc.Open()
	doc.String("NAME", a.Name)
	doc.String("PROTO", a.Proto)
	doc.String("PORT", portOf(a))
	doc.String("STATE", appState(a))
	doc.String("FAILED", a.Failed)
	doc.Close()
}
