package api

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// AppPlace is an app of one attempt of a job: what links to it name. The next attempt's app is another.
type AppPlace struct {
	ID      queue.ElementID
	Attempt int
	Name    string // of the app, or its port in decimal
}

// AppSite is what the daemon knows of apps beside the image's labels.
type AppSite interface {
	// Programs are the site's, whatever the image. The caller must not change them.
	Programs() []images.Program
	// Link is how a browser gets to an app, what {base} the app is shown below, and the app's token. The URL is "" where there is no proxy.
	Link(AppPlace) AppLink
}

// AppLink says how an app is reached. All but Base are secrets.
type AppLink struct {
	URL   string // lets in whoever has it
	Base  string
	Token string
}

// App is an app of a session as its owner sees it.
type App struct {
	images.AppState
	Place AppPlace
	URL   string // of OpenApp only, for a browser; a secret
	Token string // of OpenApp only: what the proxy shows the app, for who gets there on another way
}

// Ports that a user can have opened by hand.
const (
	minAppPort = images.MinPort
	maxAppPort = images.MaxPort
)

// Apps lists the apps of a running job of by, named as bjobs names it. Errors are as of Exec.
func (s *Server) Apps(ctx context.Context, by queue.Identity, job string) ([]App, error) {
	at, node, err := s.appsOf(job, by)
	if err != nil {
		return nil, err
	}
	states, err := s.askApps(ctx, at, node, "")
	if err != nil {
		return nil, err
	}
	out := make([]App, len(states))
	for i, st := range states {
		at.Name = st.Name
		out[i] = App{AppState: st, Place: at}
	}
	return out, nil
}

// OpenApp starts an app of a running job of by if it does not run, waits until it listens, and says where it is. name is an
// app's, or a port that the user has opened. It may take minutes; ctx bounds it.
func (s *Server) OpenApp(ctx context.Context, by queue.Identity, job, name string) (App, error) {
	at, node, err := s.appsOf(job, by)
	if err != nil {
		return App{}, err
	}
	at.Name = name
	st, err := s.startApp(ctx, at, node)
	if err != nil {
		return App{}, err
	}
	app := App{AppState: st, Place: at}
	link := s.cfg.Apps.Link(at)
	if st.Proto == images.HTTP || st.Proto == images.Preopen {
		app.URL = link.URL
	}
	if st.Auth != images.NoAuth {
		app.Token = link.Token
	}
	return app, nil
}

// StartApp starts the app of an attempt if it does not run, as OpenApp, for the daemon itself.
func (s *Server) StartApp(ctx context.Context, at AppPlace) error {
	node, _, err := s.attempt(at)
	if err == nil {
		_, err = s.startApp(ctx, at, node)
	}
	return err
}

func (s *Server) startApp(ctx context.Context, at AppPlace, node nodes.ID) (images.AppState, error) {
	if port, ok, err := ParseAppPort(at.Name); ok {
		if err != nil {
			return images.AppState{}, err
		}
		if err := s.begun(ctx, at); err != nil {
			return images.AppState{}, err
		}
		c, err := s.DialApp(ctx, at, port) // says what is wrong with it
		if err != nil {
			return images.AppState{}, err
		}
		_ = c.Close()
		return images.AppState{Name: at.Name, Proto: images.HTTP, Port: port, Running: true}, nil
	}
	states, err := s.askApps(ctx, at, node, at.Name)
	if err != nil {
		return images.AppState{}, err
	}
	return states[0], nil
}

// FindApp says where the app of an attempt is, for the proxy: NotFound when the attempt is over, Conflict when the app
// does not run.
func (s *Server) FindApp(ctx context.Context, at AppPlace) (images.AppState, error) {
	node, _, err := s.attempt(at)
	if err != nil {
		return images.AppState{}, err
	}
	if port, ok, err := ParseAppPort(at.Name); ok {
		return images.AppState{Name: at.Name, Proto: images.HTTP, Port: port, Running: true}, err
	}
	states, err := s.askApps(ctx, at, node, "")
	if err != nil {
		return images.AppState{}, err
	}
	for _, st := range states {
		if st.Name != at.Name {
			continue
		}
		if !st.Running {
			return st, wire.Errorf(Conflict, "%s does not run", st.Name)
		}
		return st, nil
	}
	return images.AppState{}, wire.Errorf(NotFound, "there is no such app")
}

// DialApp connects to a port of an attempt where a program of its user listens, as Dial does. It never reaches another attempt.
func (s *Server) DialApp(ctx context.Context, at AppPlace, port int) (net.Conn, error) {
	if port < minAppPort || port > maxAppPort {
		return nil, wire.Errorf(Invalid, "port %d: want %d to %d", port, minAppPort, maxAppPort)
	}
	node, _, err := s.attempt(at)
	if err != nil {
		return nil, err
	}
	to := queue.DialOrder{Port: port, Own: true}
	pipe, err := s.hub.Pipe(ctx, node, queue.PipeOrder{Kind: "dial", ID: at.ID, Attempt: at.Attempt, Dial: &to})
	if err != nil {
		return nil, err
	}
	return connected(ctx, pipe, to)
}

// AppAlive says that the attempt of a place still runs.
func (s *Server) AppAlive(at AppPlace) bool {
	_, _, err := s.attempt(at)
	return err == nil
}

// AppSubscribe wakes when the job of a place changes. cancel must be called.
func (s *Server) AppSubscribe(at AppPlace) (changed <-chan struct{}, cancel func()) {
	return s.engine.Subscribe(at.ID.Job)
}

// attempt finds the node where an attempt runs; one that is suspended does, too.
func (s *Server) attempt(at AppPlace) (node nodes.ID, image images.ID, err error) {
	err = wire.Errorf(NotFound, "the session is over")
	s.engine.View(func(v queue.View) {
		j, e := v.Book().Find(at.ID)
		if e == nil || e.Attempt == nil || e.Attempt.Number != at.Attempt || e.State.Pending() || e.State.Final() || len(e.Attempt.Alloc) == 0 {
			return
		}
		node, image, err = e.Attempt.Alloc[0].Node, j.Spec.ImageID, nil
	})
	return node, image, err
}

// appsOf finds the running element that job names, for its owner.
func (s *Server) appsOf(job string, by queue.Identity) (AppPlace, nodes.ID, error) {
	if s.cfg.Apps == nil {
		return AppPlace{}, "", wire.Errorf(Conflict, "this daemon knows no apps")
	}
	id, attempt, node, err := s.running(job, by)
	return AppPlace{ID: id, Attempt: attempt}, node, err
}

// beginTimeout is how long an app waits for its job, which the node may not know yet when it is listed as running.
const beginTimeout = 30 * time.Second

// begun waits until the command of an attempt has begun, on which the server beside it waits, too.
func (s *Server) begun(ctx context.Context, at AppPlace) error {
	changed, cancel := s.engine.Subscribe(at.ID.Job)
	defer cancel()
	limit := time.NewTimer(beginTimeout)
	defer limit.Stop()
	for {
		if _, _, err := s.attempt(at); err != nil {
			return err
		}
		begun := false
		s.engine.View(func(v queue.View) {
			_, e := v.Book().Find(at.ID)
			begun = e != nil && e.Attempt != nil && !e.Attempt.Began.IsZero()
		})
		if begun {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return wire.Errorf(Conflict, "Job <%s> : Not yet started.", at.ID)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// askApps asks the server beside the job for its apps: to start one, or with start "" how all are.
func (s *Server) askApps(ctx context.Context, at AppPlace, node nodes.ID, start string) ([]images.AppState, error) {
	order := &images.AppOrder{Apps: s.cfg.Apps.Programs(), Start: start, Labels: true}
	if _, id, err := s.attempt(at); err != nil {
		return nil, err
	} else if id != 0 {
		if err := s.catalogued(id, order); err != nil {
			return nil, err
		}
	}
	if err := s.begun(ctx, at); err != nil {
		return nil, err
	}
	if start != "" {
		link := s.cfg.Apps.Link(at)
		order.Base, order.Token = link.Base, link.Token
	}
	if err := order.Check(); err != nil {
		return nil, wire.Errorf(NotFound, "Job <%s> : %v", at.ID, err)
	}
	pipe, err := s.hub.Pipe(ctx, node, queue.PipeOrder{Kind: "app", ID: at.ID, Attempt: at.Attempt, App: order})
	if err != nil {
		return nil, err
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	var answer []byte
	for {
		m, err := received(pipe)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if answer = append(answer, m.GetData()...); len(answer) > maxMessage {
			return nil, wire.Errorf(Conflict, "the session says too much of its apps")
		}
		if m.GetExited() {
			break
		}
	}
	states, err := images.ParseAppStates(answer, order)
	if err == nil && start != "" && (len(states) != 1 || states[0].Name != start) {
		err = fmt.Errorf("apps of the session: not about %s", start)
	}
	if err != nil {
		return nil, wire.Errorf(Conflict, "%v", err) // its user's own server said so
	}
	return states, nil
}

// catalogued adds what an image of the catalogue says of its apps.
func (s *Server) catalogued(id images.ID, order *images.AppOrder) (err error) {
	s.engine.View(func(v queue.View) {
		i := v.Book().Images.Get(id)
		if i == nil {
			return // then they are read in the session
		}
		var labels images.Labels
		if labels, err = images.ParseLabels(i.Labels); err == nil {
			order.Apps, order.Runtime, order.Labels = images.MergeApps(labels.Apps, order.Apps), labels.RuntimePath, false
		}
	})
	return err
}

// ParseAppPort reads a name that is a port; ok says that it is meant as one.
func ParseAppPort(name string) (port int, ok bool, err error) {
	if name == "" || slices.ContainsFunc([]byte(name), func(c byte) bool { return c < '0' || c > '9' }) {
		return 0, false, nil
	}
	port, err = strconv.Atoi(name)
	if err != nil || port < minAppPort || port > maxAppPort || name[0] == '0' {
		return 0, true, wire.Errorf(Invalid, "port %.20s: want %d to %d", name, minAppPort, maxAppPort)
	}
	return port, true, nil
}

// Apps lists the apps of a session, or opens one.
func (u *users) Apps(ctx context.Context, req *connect.Request[pb.AppsRequest]) (*connect.Response[pb.AppsResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	ctx, done := u.streaming(ctx) // it ends with the server, however long the app takes
	defer done()
	var apps []App
	if name := req.Msg.GetOpen(); name != "" {
		app, err := u.OpenApp(ctx, by, req.Msg.GetId(), name)
		if err != nil {
			return nil, err
		}
		apps = []App{app}
	} else if apps, err = u.Server.Apps(ctx, by, req.Msg.GetId()); err != nil {
		return nil, err
	}
	out := &pb.AppsResponse{}
	for _, a := range apps {
		out.Apps = append(out.Apps, &pb.AppInfo{Name: a.Name, Proto: string(a.Proto), Port: int32(a.Port), Running: a.Running, Startable: a.Startable, Url: a.URL, Auth: string(a.Auth), Token: a.Token, Failed: a.Failed})
	}
	return answer(out, nil)
}
