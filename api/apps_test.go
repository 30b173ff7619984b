package api_test

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/queue"
)

// appSite is a site with one app.
type appSite struct{}

func (appSite) Programs() []images.Program {
	return []images.Program{{App: images.App{Name: "web", Proto: images.HTTP}, Command: []string{"web", "{port}", "{token}"}, Auth: images.TokenAuth}}
}

func (appSite) Link(at api.AppPlace) api.AppLink {
	return api.AppLink{URL: "http://" + at.ID.String() + "/" + at.Name, Base: "/", Token: "token of " + at.Name}
}

// Apps are their owner's, of the attempt that runs, and nothing that the session says of them is believed beyond its form.
func TestApps(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{Apps: appSite{}})
	a := newAgent("n1")
	orders := make(chan queue.PipeOrder, 100)
	says := `[{"name":"web","proto":"http","running":true,"startable":true,"port":8888,"auth":"token"}]`
	a.pipe = func(o queue.PipeOrder, p queue.Pipe) {
		orders <- o
		if o.Kind == "dial" {
			echo(o, p)
			return
		}
		_ = p.Send(queue.PipeOutput{})
		_ = p.Send(queue.PipeOutput{Data: []byte(says)})
		_ = p.Send(queue.PipeOutput{Exited: true})
		_ = p.Close()
	}
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) {
		running(j, 7, queue.Batch)
		j.Elements[0].Attempt.Began = time.Unix(1, 0)
	})
	owner := queue.Identity{User: "seven", UID: 7}
	app, err := s.server.OpenApp(deadline(t), owner, "1", "web")
	if err != nil || app.URL == "" || app.Token != "token of web" || app.Port != 8888 {
		t.Fatalf("%+v, %v", app, err)
	}
	if o := receive(t, orders); o.Kind != "app" || o.App == nil || o.App.Start != "web" || o.App.Token != "token of web" || !o.App.Labels || o.Attempt != app.Place.Attempt {
		text, _ := json.Marshal(o.App)
		t.Errorf("the node was told %+v, %s", o, text)
	}
	for _, row := range []struct {
		what, job, name string
		by              queue.Identity
		want            wire.Code
	}{
		{"another user", "1", "web", queue.Identity{UID: 8}, wire.Denied},
		{"an administrator", "1", "web", queue.Identity{User: "root", Admin: true}, wire.Denied},
		{"another user's port", "1", "8888", queue.Identity{UID: 8}, wire.Denied},
		{"no such job", "9", "web", owner, wire.NotFound},
		{"a privileged port", "1", "22", owner, wire.Invalid},
		{"a port too high", "1", "65535", owner, wire.Invalid},
		{"a port with zeros", "1", "08888", owner, wire.Invalid},
		{"a port where nobody listens", "1", "8889", owner, wire.Conflict},
	} {
		if app, err := s.server.OpenApp(deadline(t), row.by, row.job, row.name); code(err) != row.want {
			t.Errorf("%s: %+v, %v", row.what, app, err)
		}
	}
	at := app.Place
	c, err := s.server.DialApp(deadline(t), at, 8888)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, 8)
	if _, err := io.WriteString(c, "hey"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "echo hey" {
		t.Errorf("%q, %v", got, err)
	}
	old := at
	old.Attempt++
	if _, err := s.server.DialApp(deadline(t), old, 8888); code(err) != wire.NotFound {
		t.Errorf("another attempt: %v", err)
	}
	if _, err := s.server.DialApp(deadline(t), at, 22); code(err) != wire.Invalid {
		t.Errorf("a privileged port: %v", err)
	}
	for o := (queue.PipeOrder{}); o.Kind != "dial" || o.Dial.Port != 8888; { // connections are to the user's own listeners only
		if o = receive(t, orders); o.Kind == "dial" && !o.Dial.Own {
			t.Errorf("the node was told %+v", o.Dial)
		}
	}
	says = `[{"name":"web","proto":"http","running":true,"port":22}]`
	if app, err := s.server.FindApp(deadline(t), at); code(err) != wire.Conflict {
		t.Errorf("a session that says port 22: %+v, %v", app, err)
	}
	s.engine.change(1, func(j *queue.Job) { j.Elements[0].State = queue.Done })
	if _, err := s.server.FindApp(deadline(t), at); code(err) != wire.NotFound || s.server.AppAlive(at) {
		t.Errorf("after the end: %v", err)
	}
	u := s.users(s.unix())
	if _, err := u.Apps(deadline(t), &pb.AppsRequest{Id: "1", Open: "web"}); err == nil {
		t.Error("another user by the socket has opened it")
	}
}
