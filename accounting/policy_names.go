package accounting

import (
	"slices"
	"strings"
)

// Unknown lists the scopes of limits that name a queue or an image which a site does not have: nothing counts against
// them. Images are given as NAME:TAG; a limit may leave out :latest. A limit of a SIF file, by its path, is known: the
// file is its user's affair.
func (p *Policy) Unknown(queues, images []string) []Scope {
	if p == nil {
		return nil
	}
	var out []Scope
	for i := range p.Limits {
		s := p.Limits[i].Scope
		known := true
		switch s.Kind {
		case ForQueue:
			known = slices.Contains(queues, s.Name)
		case ForImage:
			known = strings.HasPrefix(s.Name, "/") || slices.Contains(images, s.Name) || slices.Contains(images, s.Name+":latest")
		}
		if !known {
			out = append(out, s)
		}
	}
	return out
}

// AccountOf is the account in which a user's job counts that names an account, or none: that one while there is one of the
// name, and else the user's default. Where there are no accounts every name is one.
func (p *Policy) AccountOf(named, user string) string {
	if named != "" && (p.Flat() || p.Has(named)) {
		return named
	}
	return p.DefaultOf(user)
}
