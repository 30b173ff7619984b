package api

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairslice/api/wire"
	"fairslice/queue"
)

// people looks users up and remembers them for a while: a directory server asked at each bsub would
// be slower than all the rest.
type people struct {
	now func() time.Time

	mu     sync.Mutex
	byID   map[int]remembered
	named  map[string]remembered
	passwd string // /etc/passwd, or a test's
}

type remembered struct {
	id    queue.Identity
	until time.Time
}

const rememberFor = time.Minute

func newPeople(now func() time.Time) *people {
	return &people{now: now, byID: map[int]remembered{}, named: map[string]remembered{}, passwd: "/etc/passwd"}
}

// byUID never fails for a number that no directory knows: such a user is named by the number.
func (p *people) byUID(uid int) (queue.Identity, error) {
	p.mu.Lock()
	r, ok := p.byID[uid]
	p.mu.Unlock()
	if ok && p.now().Before(r.until) {
		return r.id, nil
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	var unknown user.UnknownUserIdError
	switch {
	case errors.As(err, &unknown):
		return p.keep(queue.Identity{User: strconv.Itoa(uid), UID: uid, GID: uid, Home: "/", Shell: "/bin/sh"}), nil
	case err != nil:
		return queue.Identity{}, wire.Errorf(Unavailable, "user %d cannot be looked up now: %v", uid, err)
	}
	return p.remember(u)
}

func (p *people) byName(name string) (queue.Identity, error) {
	p.mu.Lock()
	r, ok := p.named[name]
	p.mu.Unlock()
	if ok && p.now().Before(r.until) {
		return r.id, nil
	}
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		return queue.Identity{}, wire.Errorf(Denied, "the batch host knows no user %q", name)
	case err != nil:
		return queue.Identity{}, wire.Errorf(Unavailable, "user %q cannot be looked up now: %v", name, err)
	}
	return p.remember(u)
}

// group is asked for by administrators only, and not remembered.
func (p *people) group(name string) (queue.Group, error) {
	g, err := user.LookupGroup(name)
	var unknown user.UnknownGroupError
	switch {
	case errors.As(err, &unknown):
		return queue.Group{}, wire.Errorf(Invalid, "%s: Bad user or user group name", name)
	case err != nil:
		return queue.Group{}, wire.Errorf(Unavailable, "group %q cannot be looked up now: %v", name, err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return queue.Group{}, wire.Errorf(Internal, "group %q has no number: %v", name, err)
	}
	return queue.Group{Name: g.Name, GID: gid}, nil
}

func (p *people) remember(u *user.User) (queue.Identity, error) {
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return queue.Identity{}, wire.Errorf(Internal, "user %q has no numbers: %v", u.Username, err)
	}
	id := queue.Identity{User: u.Username, UID: uid, GID: gid, Home: u.HomeDir, Shell: p.shell(u.Username)}
	groups, err := u.GroupIds()
	if err != nil {
		return queue.Identity{}, wire.Errorf(Unavailable, "the groups of user %q cannot be looked up now: %v", u.Username, err)
	}
	for _, g := range groups {
		if n, err := strconv.Atoi(g); err == nil {
			id.Groups = append(id.Groups, n)
		}
	}
	return p.keep(id), nil
}

func (p *people) keep(id queue.Identity) queue.Identity {
	r := remembered{id, p.now().Add(rememberFor)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byID[id.UID], p.named[id.User] = r, r
	return id
}

// shell is what os/user does not tell. Users of a directory are not in the file; getent knows them.
func (p *people) shell(name string) string {
	if f, err := os.Open(p.passwd); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if sh, ok := shellOf(lines.Text(), name); ok {
				return sh
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "getent", "passwd", "--", name).Output(); err == nil {
		if sh, ok := shellOf(strings.TrimSpace(string(out)), name); ok {
			return sh
		}
	}
	return "/bin/sh"
}

func shellOf(line, name string) (string, bool) {
	f := strings.Split(line, ":")
	if len(f) != 7 || f[0] != name {
		return "", false
	}
	if f[6] == "" { // passwd(5): empty means /bin/sh
		return "/bin/sh", true
	}
	return f[6], true
}
