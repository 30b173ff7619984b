package web

import (
	"cmp"
	"slices"
	"strings"

	"fairslice/images"
)

// appChoice is an app that a session can be started with.
type appChoice struct {
	Name   string
	Of     []string // the images that name it, by NAME:TAG; none: the site's own, which any image may have
	Note   string   // those, for people
	Chosen bool
}

// apps are what the user's images and the site name, in the order of their names. The catalogue's images are given.
func (v *visit) apps(list []*images.Image, chosen []string) []appChoice {
	site, of := v.Catalogue.AppNames()
	for _, i := range list {
		labels, err := images.ParseLabels(i.Labels)
		if err != nil {
			continue // imageNote says so
		}
		for _, a := range labels.Apps {
			of[i.Ref.String()] = append(of[i.Ref.String()], a.Name)
		}
	}
	named := map[string]*appChoice{}
	for ref, apps := range of {
		for _, name := range apps {
			if named[name] == nil {
				named[name] = &appChoice{Name: name}
			}
			named[name].Of = append(named[name].Of, ref)
		}
	}
	for _, name := range site {
		named[name] = &appChoice{Name: name}
	}
	out := make([]appChoice, 0, len(named))
	for _, c := range named {
		slices.Sort(c.Of)
		c.Note, c.Chosen = someOf(c.Of), slices.Contains(chosen, c.Name)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b appChoice) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// someOf is a list in a few words.
func someOf(names []string) string {
	const most = 3
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += " …"
	}
	return text
}
