package engine

import (
	"fmt"
	"strings"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Refusal is an error whose text is meant for the user as it is, without "Job not submitted.".
type Refusal struct{ Text string }

func (r Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) error { return Refusal{fmt.Sprintf(format, args...)} }

// shape works out what a run of one element needs in a queue: the user's words, then the queue's
// defaults, within the queue's limits.
func (c *Config) shape(s *queue.Spec, q *Queue) (queue.Shape, error) {
	gpu, err := queue.GPURequest(s)
	if err != nil {
		return queue.Shape{}, Refusal{err.Error()}
	}
	sh := queue.Shape{
		Queue: q.Name, Priority: queue.ShapePriority(q.Priority, s.Priority),
		Slots: max(s.MinSlots, 1), MaxSlots: max(s.MaxSlots, s.MinSlots, 1),
		OneHost: s.Resources.OneHost, PerHost: s.Resources.PerHost,
		RunLimit: s.RunLimit, Select: string(s.Resources.Select), Hosts: hostsText(s.Hosts),
		MemoryMax: s.Memory, Reservation: s.Reservation,
		Host: nodes.Request{
			GPU: gpu, Exclusive: s.Exclusive, Consumables: nodes.MakeConsumables(s.Resources.Consumables),
		},
	}
	if err := c.checkQueue(s, q, &sh); err != nil {
		return queue.Shape{}, err
	}
	if sh.RunLimit == 0 && sh.Reservation == "" { // in an advance reservation it ends with the window
		if sh.RunLimit = q.DefaultRunLimit; sh.RunLimit == 0 {
			sh.RunLimit = q.MaxRunLimit
		}
	}
	if sh.MemoryMax == 0 {
		if sh.MemoryMax = q.DefaultMemory; sh.MemoryMax == 0 {
			sh.MemoryMax = q.MaxMemory
		}
	}
	sh.Host.Memory = hostMemory(s, sh)
	return sh, nil
}

// hostMemory is what is reserved on each host: rusage[mem=] where it was said, otherwise the memory
// limit the user gave, so that a node is never promised twice.
func hostMemory(s *queue.Spec, sh queue.Shape) int64 {
	m := s.Resources.Memory
	hosts := 1
	if sh.PerHost > 0 {
		hosts = (sh.Slots + sh.PerHost - 1) / sh.PerHost
	}
	switch {
	case m == 0:
		return s.Memory
	case s.Resources.MemoryScope == queue.PerTask:
		per := sh.Slots
		if sh.PerHost > 0 {
			per = min(sh.PerHost, sh.Slots)
		}
		if m > queue.MaxMemory/int64(per) {
			return queue.MaxMemory // more than any host has, and no overflow: it pends and says so
		}
		return m * int64(per)
	case s.Resources.MemoryScope == queue.PerJob:
		return (m + int64(hosts) - 1) / int64(hosts)
	}
	return m
}

func (c *Config) checkQueue(s *queue.Spec, q *Queue, sh *queue.Shape) error {
	over := refuse("%s: Cannot exceed queue's hard limit(s)", q.Name)
	switch {
	case s.Exclusive && !q.Exclusive:
		return refuse("Queue does not accept exclusive jobs")
	case s.Interactive.Session() && !q.Interactive:
		return refuse("Queue does not accept interactive jobs")
	case q.MaxRunLimit > 0 && s.RunLimit > q.MaxRunLimit:
		return over
	case q.MaxMemory > 0 && (s.Memory > q.MaxMemory || s.Resources.Memory > q.MaxMemory):
		return over
	case q.MaxSlots > 0 && sh.Slots > q.MaxSlots, q.UserSlots > 0 && sh.Slots > q.UserSlots:
		return refuse("Too many processors requested")
	case s.Image == "" && q.Image == "" && c.DefaultImage == "" && q.Container == "required":
		return refuse("%s: Queue runs jobs in containers only: an image must be named (-image)", q.Name)
	case s.Image != "" && q.Container == "never":
		return refuse("%s: Queue does not run containers", q.Name)
	case !q.Unfenced && c.isFraction(sh.Host.GPU) && (q.Container == "never" || s.Image == "" && q.Image == "" && c.DefaultImage == ""):
		return refuse("%s: Queue gives fractions of GPUs to jobs in containers only: name an image (-image), or ask for whole GPUs (-gpu num=1)", q.Name)
	}
	if s.Writable {
		switch {
		case q.OverlaySize == 0:
			return refuse("%s: Queue gives no writable images (-writable)", q.Name)
		case s.Image == "" && q.Image == "" && c.DefaultImage == "":
			return refuse("-writable: The job has no image to change: name one (-image)")
		}
	}
	if s.Image != "" && s.ImageID == 0 {
		if _, err := c.imageFile(s.Image); err != nil {
			return err
		}
	}
	return nil
}

// isFraction says whether a request is for parts of GPUs, as far as it can be known before a GPU is chosen: the site may count
// models differently. The node looks again.
func (c *Config) isFraction(r nodes.GPURequest) bool {
	if r.Amount == 0 || c.GPUCapacity == nil {
		return r.Memory > 0
	}
	whole := c.GPUCapacity(r.Model)
	return whole > 0 && r.Amount%whole != 0
}

// imageFile finds the SIF file of an image named by the user. A path is taken as it is: the node
// opens it with the user's rights.
func (c *Config) imageFile(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	for _, n := range []string{name, name + ":latest"} {
		if f, ok := c.Images[n]; ok {
			return f, nil
		}
	}
	return "", refuse("%s: No such image", name)
}

// image is the SIF file that a job of this queue runs in, "" for the bare node.
func (c *Config) image(s *queue.Spec, q *Queue) (string, error) {
	if q != nil && q.Container == "never" {
		return "", nil
	}
	for _, name := range []string{s.Image, queueImage(q), c.DefaultImage} {
		if name == s.Image && s.ImageID != 0 {
			return "", nil // of the catalogue: the node has the file under its digest
		}
		if name != "" {
			return c.imageFile(name)
		}
	}
	return "", nil
}

func queueImage(q *Queue) string {
	if q == nil {
		return ""
	}
	return q.Image
}

func hostsText(hosts []queue.HostWish) string {
	parts := make([]string, len(hosts))
	for i, h := range hosts {
		parts[i] = h.Name
		if h.Others {
			parts[i] = "others"
		}
	}
	return strings.Join(parts, " ")
}

func clamp(v, low, high int) int { return max(low, min(v, high)) }

// endOf is when a live attempt is over at the latest; zero when it has no limit. Time spent stopped does not count.
func endOf(el *queue.Element, now time.Time) time.Time {
	a := el.Attempt
	if a.RunLimit <= 0 {
		return time.Time{}
	}
	from := a.Began
	if from.IsZero() {
		from = a.Dispatched
	}
	end := from.Add(a.RunLimit + a.Stopped)
	if el.State.Suspended() {
		end = end.Add(max(now.Sub(el.Since), 0))
	}
	return end
}
