package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"fairslice/api"
	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/bsub"
)

// maxCount is how many sessions the dialog starts at once.
const maxCount = 100

// launchForm is what was asked for, as text: a form that was refused is shown again as it was.
type launchForm struct {
	Token   string // makes the same form, sent twice, one submission
	Name    string
	Image   string
	FGPU    string
	Cores   string
	Memory  string
	Limit   string
	Queue   string
	Apps    []string
	Command string
	Count   string
}

// launchPage is the dialog.
type launchPage struct {
	Form   launchForm
	CSRF   string
	Text   string // what is wrong with the form
	Images []imageGroup
	Apps   []appChoice
	Queues []queueChoice
	Free   free
}

// imageGroup is an image's versions.
type imageGroup struct {
	Name   string
	Images []imageChoice
}

type imageChoice struct {
	Ref  string
	Tag  string
	Note string // what it needs, and its apps
}

type queueChoice struct {
	Name    string
	Note    string
	Default bool
}

// free is what could be given now, and what the cluster has.
type free struct {
	FGPU, Piece nodes.Amount // in all, and the most on one GPU
	Most        nodes.Amount // that one GPU is worth
	Cores       int          // in all
	MostCores   int          // of one node
}

func (s *Server) showLaunch(w http.ResponseWriter, v *visit) error {
	return v.launchPage(w, http.StatusOK, launchForm{Token: secret(), Count: "1", FGPU: "0", Cores: "1"}, "")
}

func (v *visit) launchPage(w http.ResponseWriter, status int, form launchForm, text string) error {
	p := launchPage{Form: form, CSRF: v.session.csrf, Text: text, Free: v.free()}
	if v.r.Header.Get(liveHeader) != "" { // the script takes what is free, and leaves the form alone
		return v.render(w, status, "launch", p)
	}
	site := v.Describe()
	list, err := v.Catalogue.Images(v.by, false)
	if err != nil {
		return err
	}
	p.Images = imageGroups(list, site.Images)
	p.Apps = v.apps(list, form.Apps)
	for _, q := range site.Queues {
		if len(q.Users) == 0 || slices.Contains(q.Users, v.by.User) {
			p.Queues = append(p.Queues, queueChoice{q.Name, q.Description, q.Name == site.DefaultQueue})
		}
	}
	return v.render(w, status, "launch", p)
}

// imageGroups sorts the versions of each image together: the user's and the site's of the catalogue, then those of the configuration.
func imageGroups(list []*images.Image, configured []string) []imageGroup {
	var out []imageGroup
	add := func(name string, c imageChoice) {
		i := slices.IndexFunc(out, func(g imageGroup) bool { return g.Name == name })
		if i < 0 {
			i, out = len(out), append(out, imageGroup{Name: name})
		}
		out[i].Images = append(out[i].Images, c)
	}
	for _, i := range list {
		name := i.Ref
		name.Tag = ""
		add(strings.TrimSuffix(name.String(), ":"), imageChoice{i.Ref.String(), i.Ref.Tag, imageNote(i)})
	}
	for _, ref := range configured {
		name, tag, _ := strings.Cut(ref, ":")
		add(name, imageChoice{ref, tag, ""})
	}
	return out
}

// imageNote is what an image needs and offers, in a line.
func imageNote(i *images.Image) string {
	labels, err := images.ParseLabels(i.Labels)
	if err != nil {
		return err.Error()
	}
	var parts []string
	if m := labels.Min; m.CPU > 0 {
		parts = append(parts, "≥ "+plural(m.CPU, "core"))
	}
	if m := labels.Min; m.Memory > 0 {
		parts = append(parts, "≥ "+queue.FormatMemory(m.Memory))
	}
	if m := labels.Min; m.FGPU > 0 {
		parts = append(parts, "≥ "+m.FGPU.String()+" fGPU")
	}
	if m := labels.Min; m.GPUs > 0 {
		parts = append(parts, "≥ "+plural(m.GPUs, "GPU"))
	}
	var apps []string
	for _, a := range labels.Apps {
		apps = append(apps, a.Name)
	}
	if len(apps) > 0 {
		parts = append(parts, "apps: "+someOf(apps))
	}
	return strings.Join(parts, ", ")
}

// free looks at the nodes that take jobs.
func (v *visit) free() free {
	var f free
	v.Batch.View(func(q queue.View) {
		for _, n := range q.Book().Nodes {
			if n.State() != nodes.Up {
				continue
			}
			f.MostCores = max(f.MostCores, n.Slots)
			if n.Taken {
				continue
			}
			f.Cores += max(n.Slots-n.UsedSlots, 0)
			for i := range n.GPUs {
				g := &n.GPUs[i]
				left := max(g.Free(), 0)
				f.FGPU, f.Piece, f.Most = f.FGPU+left, max(f.Piece, left), max(f.Most, g.Capacity)
			}
		}
	})
	return f
}

// launch submits what the form asks for, as bsub would.
func (s *Server) launch(w http.ResponseWriter, v *visit) error {
	get := func(name string) string { return strings.TrimSpace(v.r.PostFormValue(name)) }
	form := launchForm{
		Token: get("token"), Name: get("name"), Image: get("image"), FGPU: get("fgpu"), Cores: get("cores"), Memory: get("memory"),
		Limit: get("limit"), Queue: get("queue"), Apps: v.r.PostForm["apps"], Command: get("command"), Count: get("count"),
	}
	submission, count, err := v.submission(form)
	for i := 0; err == nil && i < count; i++ {
		one := submission
		one.Token = fmt.Sprintf("web-%s-%d", form.Token, i)
		var job queue.Accepted
		if job, err = v.Batch.Submit(v.r.Context(), one); err == nil {
			v.note("Job <%d> is submitted to queue <%s>.", job.Job, job.Queue)
			for _, n := range job.Notes {
				v.note("%s", n)
			}
		}
	}
	if err != nil {
		text, status := v.explain(v.r, v.lang, err)
		return v.launchPage(w, status, form, text)
	}
	return back(w, v, "/")
}

// submission makes of a form what bsub makes of a command line, with the same parser. Its errors have bsub's texts.
func (v *visit) submission(f launchForm) (sub queue.Submission, count int, err error) {
	invalid := func(format string, args ...any) error {
		return &api.Error{Code: api.Invalid, Msg: fmt.Sprintf(format, args...)}
	}
	count, err = strconv.Atoi(f.Count)
	if err != nil || count < 1 || count > maxCount {
		return sub, 0, invalid("%.40q: want a number of sessions from 1 to %d", f.Count, maxCount)
	}
	if len(f.Token) < 16 || len(f.Token) > 64 {
		return sub, 0, invalid("The submission has no token. Job not submitted.")
	}
	s, err := bsub.Build(f.arguments(), v.input())
	if err != nil {
		return sub, 0, invalid("%s", err)
	}
	if f.Command == "" {
		s.RunShell()
	}
	env := make([][]byte, len(s.Env))
	for i, e := range s.Env {
		env[i] = []byte(e)
	}
	for _, n := range s.Notes {
		v.note("%s", n)
	}
	return queue.Submission{Spec: s.Spec, Script: s.Script, Env: env, Owner: v.by}, count, nil
}

// arguments is the form as a bsub command line. What was left empty is not asked for.
func (f *launchForm) arguments() []string {
	var args []string
	option := func(name, value string) {
		if value != "" {
			args = append(args, "-"+name, value)
		}
	}
	if f.Command == "" {
		args = append(args, "-Is")
	}
	option("J", f.Name)
	option("q", f.Queue)
	option("image", f.Image)
	option("n", f.Cores)
	option("M", f.Memory)
	option("W", f.Limit)
	option("apps", strings.Join(f.Apps, ","))
	if f.FGPU != "" && strings.Trim(f.FGPU, "0.") != "" {
		option("gpu", "fgpu="+f.FGPU)
	}
	if f.Command == "" {
		return append(args, bsub.SessionCommand)
	}
	return append(args, f.Command)
}

// input is what bsub's parser needs to know of its surroundings: those of a fresh login in the home directory.
func (v *visit) input() bsub.Input {
	site := v.Describe()
	return bsub.Input{
		Stdin: func() ([]byte, error) { return nil, errors.New("there is no script") }, // and no ReadFile: the command is no file of ours
		Environ: []string{"HOME=" + v.by.Home, "USER=" + v.by.User, "LOGNAME=" + v.by.User, "SHELL=" + v.by.Shell,
			"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=" + term},
		CWD: v.by.Home, Host: site.Master, Umask: 0o022, Now: v.now, Unit: site.MemoryUnit, MaxArray: site.MaxArray, Consumables: site.Consumables,
		Rows: 24, Cols: 80, Term: term,
	}
}

// term is what xterm.js understands.
const term = "xterm-256color"
