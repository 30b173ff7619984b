package engine

import (
	"context"
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
	var own []string
	if s.ImageID != 0 { // others need not wait for the commit under way
		var err error
		e.mu.RLock()
		own, err = e.appsOfImage(s)
		e.mu.RUnlock()
		if err != nil {
			return err
		}
	}
	c := e.cfg()
	return c.mayHaveApps(s, q, own, c.FileApps)
}

// mayHaveApps is the same for a job that is modified. What files say was read before: the writer waits for no file.
func (t *tx) mayHaveApps(s *queue.Spec, q *Queue) error {
	own, err := t.e.appsOfImage(s)
	if err != nil {
		return err
	}
	return t.e.cfg().mayHaveApps(s, q, own, func(file string) ([]string, bool) {
		apps, known := t.fileApps[file]
		return apps, known
	})
}

// mayHaveApps decides; own are the apps of an image of the catalogue.
func (c *Config) mayHaveApps(s *queue.Spec, q *Queue, own []string, ofFile func(string) ([]string, bool)) error {
	have := slices.Concat(c.Apps, own)
	file, err := c.image(s, q)
	if err != nil {
		return err
	}
	if s.ImageID == 0 && file != "" && ofFile != nil {
		list, known := ofFile(file)
		if !known {
			return nil
		}
		have = append(have, list...)
	}
	for _, name := range s.Apps {
		if !slices.Contains(have, name) {
			if len(have) == 0 {
				return refuse("%s: the image has no such app; there are none", name)
			}
			slices.Sort(have)
			return refuse("%s: the image has no such app; there are: %s", name, strings.Join(slices.Compact(have), ", "))
		}
	}
	return nil
}

// appsOfImage are those of a job's image of the catalogue; none of another. The caller holds Engine.mu.
func (e *Engine) appsOfImage(s *queue.Spec) (names []string, err error) {
	if s.ImageID == 0 {
		return nil, nil
	}
	i := e.book.Images.Get(s.ImageID)
	if i == nil {
		return nil, nil // removed in this very moment: mayUseImage says so
	}
	labels, err := images.ParseLabels(i.Labels)
	if err != nil {
		return nil, refuse("%s: %v", s.Image, err)
	}
	for _, a := range labels.Apps {
		names = append(names, a.Name)
	}
	return names, nil
}

// appsOfFiles reads what mayHaveApps may have to know of the configuration's images, for a change of apps or image; nil for others.
func (e *Engine) appsOfFiles(change queue.Control) map[string][]string {
	c := e.cfg()
	if c.FileApps == nil || change.Op != queue.OpModify ||
		!slices.ContainsFunc(change.Options, func(o queue.Given) bool { return o.Name == "apps" || o.Name == "image" }) {
		return nil
	}
	out := map[string][]string{}
	for _, file := range c.Images {
		if apps, known := c.FileApps(file); known {
			out[file] = apps
		}
	}
	return out
}

// AppNames are what submissions may name: the apps of the site's own, which any image may have, and those that the configuration's
// images name, by NAME:TAG, as far as this machine can read their files. Those of the catalogue's are in its labels.
func (e *Engine) AppNames() (site []string, ofImages map[string][]string) {
	c := e.cfg()
	ofImages = map[string][]string{}
	for name, file := range c.Images {
		if c.FileApps == nil {
			break
		}
		if apps, known := c.FileApps(file); known && len(apps) > 0 {
			ofImages[name] = slices.Clone(apps)
		}
	}
	return slices.Clone(c.Apps), ofImages
}

// AppsFailed notes for the job's people that apps which a submission asked for could not be started. An attempt that is over changes
// nothing.
func (e *Engine) AppsFailed(ctx context.Context, id queue.ElementID, attempt int, why string) error {
	return e.write(ctx, func(t *tx) error {
		_, el := t.e.book.Find(id)
		if el == nil || !el.State.Live() || el.Attempt.Number != attempt || el.Note == why {
			return nil
		}
		return t.emit(id.Job, id.Index, "", &queue.Noted{Attempt: attempt, Keep: true, Text: why})
	})
}
