package command

import (
	"slices"
	"strings"

	"fairslice/accounting"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bugroupCommand() *command {
	return &command{run: bugroup, Command: option.Command{
		Name: "bugroup", Usage: "[-r] [-w] [-json] [group ...]",
		Summary: "lists the accounts of the policy as user groups, with their users",
		Example: "bugroup\nbugroup -r physics      with the users of the accounts below it, too",
		Options: []option.Option{{Name: "r", Help: "users of accounts below an account are its own"}, optWide, {Name: "l", Hidden: true}, optJSON, optNoHead},
	}}
}

// group is an account as LSF's commands see it: members are users, and accounts below it with a slash.
type group struct {
	name    string
	members []string
}

func bugroup(c *call, p *option.Parsed) int {
	_, policy, code := c.sitePolicy("bugroup")
	if code != 0 {
		return code
	}
	groups := userGroups(policy, p.Has("r"))
	var missing []string
	if len(p.Operands) > 0 {
		var named []group
		for _, name := range p.Operands {
			i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
			if i < 0 {
				missing = append(missing, name+": No such user/host group or user/host is not in group")
				continue
			}
			named = append(named, groups[i])
		}
		groups = named
	}
	if p.Has("json") {
		return c.document("GROUPS", missing, len(groups), func(doc *show.JSON, i int) {
			doc.Open()
			doc.String("GROUP_NAME", groups[i].name)
			doc.List("USERS", groups[i].members)
			doc.Close()
		})
	}
	var b []byte
	if len(groups) > 0 && !p.Has("noheader") {
		b = append(b, "GROUP_NAME    USERS\n"...)
	}
	for _, g := range groups {
		b = append(show.LeftLong(b, g.name, 12), ' ', ' ')
		for i, m := range g.members {
			if i > 0 {
				b = append(b, ' ')
			}
			b = append(b, show.Clean(m)...)
		}
		b = append(b, '\n')
	}
	c.write(b)
	return c.missing(missing, len(groups), "No user group found")
}

// userGroups are the accounts of a policy, by name. Deep puts the users of accounts below an account into it; else those
// accounts are its members, with a slash at the end.
func userGroups(policy *accounting.Policy, deep bool) []group {
	below := map[string][]string{}
	members := map[string][]string{}
	for _, m := range policy.Members {
		members[m.Account] = append(members[m.Account], m.User)
	}
	for _, a := range policy.Accounts {
		below[a.Parent] = append(below[a.Parent], a.Name)
	}
	var all func(name string) []string // policies have no cycles
	all = func(name string) []string {
		out := slices.Clone(members[name])
		for _, b := range below[name] {
			if deep {
				out = append(out, all(b)...)
			} else {
				out = append(out, b+"/")
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	var out []group
	for _, a := range policy.Accounts {
		out = append(out, group{a.Name, all(a.Name)})
	}
	slices.SortFunc(out, func(a, b group) int { return strings.Compare(a.name, b.name) })
	return out
}
