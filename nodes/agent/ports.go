package agent

import (
	"slices"
	"time"
)

// Ports keeps ports of one user's programs from the other users of this machine.
type Ports interface {
	// Claim chooses n free ports and keeps them for a user, until they are released or it is past until. It chooses none for a
	// user whose ports are not kept from anybody.
	Claim(uid, n int, until time.Time) ([]int, error)
	// Release ends that. A port at which the user's program listens by now stays the user's.
	Release(ports []int) error
}

// Users are the numbers of the users who have jobs here that have not ended; none where jobs do not run as their users.
func (a *Agent) Users() []int {
	var out []int
	if !a.cfg.SwitchUser {
		return nil
	}
	for _, at := range a.all() {
		if r := at.snapshot(); r.Stage != ended && !slices.Contains(out, r.Assignment.Owner.UID) {
			out = append(out, r.Assignment.Owner.UID)
		}
	}
	return out
}

const (
	// appPorts is how many ports are kept for an app that is to be started: some for each try, as others may be faster.
	appPorts = 8
	// appClaim is how long, if nobody hears how that went. It is more than an app has time for (package session).
	appClaim = 10 * time.Minute
)

// claimPorts chooses ports for an app of the job which no other user can ever connect to. Without any the app looks for ports
// itself, which are kept from others a moment after it listens.
func (t *attempt) claimPorts() []int {
	if t.a.cfg.Ports == nil {
		return nil
	}
	ports, err := t.a.cfg.Ports.Claim(t.snapshot().Assignment.Owner.UID, appPorts, t.a.cfg.Now().Add(appClaim))
	if err != nil {
		t.a.cfg.Logger.Warn("ports for an app not kept", "attempt", t.key, "error", err)
	}
	return ports
}

func (t *attempt) releasePorts(ports []int) {
	if len(ports) == 0 {
		return
	}
	if err := t.a.cfg.Ports.Release(ports); err != nil { // the next look makes up for it
		t.a.cfg.Logger.Warn("ports for an app not released", "attempt", t.key, "error", err)
	}
}
