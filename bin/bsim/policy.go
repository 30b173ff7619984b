package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"fairslice/accounting"
	"fairslice/backfill"
)

// policyFlags are how a policy is named on every command that takes one.
func policyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "policy", Value: "easy", Usage: "`POLICY` fcfs (nothing passes who waits), easy (what does not delay the first), conservative (what delays nobody); default (easy in the daemon's default order)"},
		&cli.StringFlag{Name: "protected", Usage: "instead of --policy: the first `N` who wait are promised a start"},
		&cli.StringFlag{Name: "order", Value: "fcfs", Usage: "`ORDER` fcfs, fairshare, xfactor; default, that of the daemon; or sjf, which is for those only who pass others"},
	}
}

// chosen is a policy as it was named.
type chosen struct {
	policy backfill.Policy
	Name   string // "easy", "protected 3"
	Order  string
}

// policyText names a policy for people.
func policyText(name, order string) string {
	if order == "fcfs" {
		return name
	}
	return name + ", " + order
}

var protection = []struct {
	name      string
	protected int
}{{"fcfs", 0}, {"easy", 1}, {"conservative", backfill.All}, {"default", 1}}

// choose reads the policy options.
func choose(c *cli.Context) (chosen, error) {
	p := chosen{Name: c.String("policy"), Order: c.String("order")}
	found := false
	for _, x := range protection {
		if x.name == p.Name {
			p.policy.Protected, found = x.protected, true
		}
	}
	switch {
	case !found:
		return p, wrong("policy", p.Name, "fcfs, easy, conservative or default")
	case c.IsSet("protected") && c.IsSet("policy"):
		return p, usageError{errors.New("--policy and --protected: only one of them is allowed")}
	case c.IsSet("protected"):
		n, err := whole(c, "protected", 0, math.MaxInt32)
		if err != nil {
			return p, err
		}
		p.policy.Protected, p.Name = int(n), fmt.Sprintf("protected %d", n)
	}
	if p.Name == "default" {
		if c.IsSet("order") && p.Order != "default" {
			return p, usageError{errors.New("--policy default and --order: only one of them is allowed; easy is the policy that takes an order")}
		}
		p.Name, p.Order = "easy", "default"
	}
	switch p.Order {
	case "fcfs":
		p.policy.Order = backfill.FCFS
	case "fairshare":
		p.policy.Order = backfill.FairShare
	case "xfactor":
		p.policy.Order = backfill.XFactor
	case "default":
		p.policy.Order = backfill.Responsive
	case "sjf":
		if p.policy.Protected == 0 || p.policy.Protected == backfill.All {
			return p, wrong("order", p.Order+" with --policy "+p.Name, "sjf with easy only, since it orders those who pass others; or fcfs, fairshare, xfactor")
		}
		p.policy.Order, p.policy.Candidates = backfill.FCFS, backfill.SJF
	default:
		return p, wrong("order", p.Order, "fcfs, sjf, fairshare, xfactor or default")
	}
	return p, nil
}

// chooseWeights reads what counts in fair share beside slots.
func chooseWeights(c *cli.Context, order string) (w accounting.Weights, err error) {
	for _, x := range []struct {
		option string
		into   *float64
	}{{"gpu-weight", &w.GPU}, {"memory-weight", &w.Memory}} {
		if c.IsSet(x.option) && order != "fairshare" {
			return w, usageError{fmt.Errorf("--%s: allowed with --order fairshare only", x.option)}
		}
		if *x.into, err = decimal(c, x.option, accounting.MaxWeight); err != nil {
			return w, err
		}
	}
	return w, nil
}
