package engine

import (
	"slices"
	"strings"

	"fairslice/images"
	"fairslice/queue"
)

// mayHaveApps refuses apps that neither the image of a submission nor the site has. What a file says that this machine cannot
// read is found out when the session runs.
func (e *Engine) mayHaveApps(s *queue.Spec, q *Queue) error {
	if len(s.Apps) == 0 {
		return nil
	}
	c := e.cfg()
	have := slices.Clone(c.Apps)
	switch file, err := c.image(s, q); {
	case err != nil:
		return err
	case s.ImageID != 0:
		list, err := e.appsOfImage(s.ImageID)
		if err != nil {
			return refuse("%s: %v", s.Image, err)
		}
		have = append(have, list...)
	case file != "" && c.FileApps != nil:
		list, known := c.FileApps(file)
		if !known {
			return nil
		}
		have = append(have, list...)
	}
	for _, name := range s.Apps {
		if !slices.Contains(have, name) {
			slices.Sort(have)
			return refuse("%s: the image has no such app; there are: %s", name, strings.Join(slices.Compact(have), ", "))
		}
	}
	return nil
}

func (e *Engine) appsOfImage(id images.ID) (names []string, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	i := e.book.Images.Get(id)
	if i == nil {
		return nil, nil // removed in this very moment: mayUseImage says so
	}
	labels, err := images.ParseLabels(i.Labels)
	for _, a := range labels.Apps {
		names = append(names, a.Name)
	}
	return names, err
}
