package api

import (
	"bytes"
	"strings"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/queue"
)

// Everybody sees everybody's jobs. What others than a job's owner and administrators are not told of it is the name of an image
// that they may not see, and its notes, which are for the job's people and can name one, too.

// hiddenImage is in place of such a name.
const hiddenImage = "(private)"

// discretion is what one caller is not told of one job.
type discretion struct {
	notes bool
	names []string // of images
}

func discreet(book *queue.Book, by queue.Identity, j *queue.Job) discretion {
	if by.Admin || by.UID == j.Owner.UID {
		return discretion{}
	}
	d := discretion{notes: true}
	d.add(book.Images, by, j.Spec)
	return d
}

func (d *discretion) add(c *images.Catalogue, by queue.Identity, s *queue.Spec) {
	if s == nil || s.ImageID == 0 { // not of the catalogue
		return
	}
	i := c.Get(s.ImageID) // nil when it was removed, and no job that is known needs it
	if i == nil || !i.VisibleTo(by.Viewer()) {
		d.names = append(d.names, s.Image)
	}
}

// addEvents takes in the images that a job had before bmod, or on its way to what it is now.
func (d *discretion) addEvents(c *images.Catalogue, by queue.Identity, events []queue.Event) {
	if !d.notes {
		return
	}
	for _, ev := range events {
		switch body := ev.Body.(type) {
		case *queue.Submitted:
			d.add(c, by, body.Spec)
		case *queue.Modified:
			d.add(c, by, body.Spec)
		}
	}
}

// spec is what all rows of the job share.
func (d discretion) spec(p *pb.Spec) {
	if len(d.names) > 0 {
		p.Image, p.ImageId = hiddenImage, 0
	}
}

// row takes its spec to be seen to.
func (d discretion) row(p *pb.Job) {
	if d.notes {
		p.Note = ""
	}
	if len(d.names) == 0 {
		return
	}
	p.Image, p.Detail = d.text(p.Image), d.text(p.Detail)
	for _, r := range p.Reasons {
		r.Text = d.text(r.Text)
	}
}

// event makes the message; nil for an event that is not told at all.
func (d discretion) event(ev queue.Event) (*pb.Event, error) {
	switch body := ev.Body.(type) {
	case *queue.Noted:
		if d.notes {
			return nil, nil
		}
	case *queue.Modified:
		if len(d.names) > 0 { // the options can have a short name
			ev.Body = &queue.Modified{Spec: body.Spec, Plan: body.Plan}
		}
	}
	p, err := wire.FromEvent(ev)
	if err != nil {
		return nil, err
	}
	for _, name := range d.names { // which JSON writes as it is: see images.ParseRef
		p.Body = bytes.ReplaceAll(p.Body, []byte(name), []byte(hiddenImage))
	}
	return p, nil
}

func (d discretion) text(s string) string {
	for _, name := range d.names {
		s = strings.ReplaceAll(s, name, hiddenImage)
	}
	return s
}
