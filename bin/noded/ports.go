package main

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"fairslice/etc"
	"fairslice/nodes/agent"
	"fairslice/nodes/portguard"
)

// openPorts gives what keeps the ports of each user's jobs from the other users of this machine; nil, and why, where nothing does.
// Where noded is not root there are no others: all jobs are of one user.
func openPorts(n etc.Node, log *slog.Logger) (g *portguard.Guard, why string) {
	if os.Geteuid() != 0 {
		return nil, ""
	}
	g, err := portguard.Open(n.StateDir, log.With("service", "ports"))
	switch {
	case err == nil && n.GuardPorts:
		return g, ""
	case n.GuardPorts:
		why = err.Error()
	default:
		why = "guard_ports is false"
	}
	if err == nil { // what it has left from when it was true
		if err := g.Look(nil, time.Now()); err != nil {
			log.Error("guarded ports not opened", "error", err)
		}
	}
	return nil, why
}

// portsOf is what the agent gets of it.
func portsOf(g *portguard.Guard) agent.Ports {
	if g == nil {
		return nil // and no interface with nothing in it
	}
	return g
}

// guardPorts guards the ports of the agent's users until life ends, and those left then for good. wait is for its end. It has
// looked when it returns: no order may change before what the last noded guarded.
func guardPorts(life context.Context, g *portguard.Guard, a *agent.Agent, log *slog.Logger) (wait func()) {
	if g == nil {
		return func() {}
	}
	if err := g.Look(a.Users(), time.Now()); err != nil {
		log.Error("ports not guarded", "error", err)
	}
	var following sync.WaitGroup
	following.Go(func() { g.Follow(life, a.Users) })
	return following.Wait
}
