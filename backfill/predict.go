package backfill

import (
	"maps"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Predictor estimates how long an element will run from what its user has run lately. Estimates order elements and
// forecast starts; promises are made on run limits alone, so a wrong estimate breaks none.
//
// An element is expected to run as long as the mean of the last ended elements of that user with the same shape; without
// any, of the user's last ended elements, each cut at the run limit; without any, until its limit. Tsafrir, Etsion and
// Feitelson ("Backfilling Using System-Generated Predictions", TPDS 2007) average the last two.
type Predictor struct {
	users map[string]*runs
}

// remembered is how many ended elements an estimate looks back at.
const remembered = 10

// maxForms bounds the shapes remembered of one user.
const maxForms = 256

// runs is what one user has run lately.
type runs struct {
	version uint64 // counts what was observed
	last    recent
	forms   map[form]*recent
}

// form is what of a shape tells one kind of job from another.
type form struct {
	slots  int
	limit  time.Duration
	memory int64
	gpu    nodes.GPURequest
	sel    string
}

func formOf(s *queue.Shape) form {
	return form{s.Slots, s.RunLimit, s.Host.Memory, s.Host.GPU, s.Select}
}

// recent are the latest run times, in seconds.
type recent struct {
	ran  [remembered]float64
	n    int // how many there were in all
	used uint64
}

func (r *recent) add(seconds float64) {
	r.ran[r.n%remembered] = seconds
	r.n++
}

// mean is over what is remembered, each cut at limit (0: none).
func (r *recent) mean(limit float64) (float64, bool) {
	n := min(r.n, remembered)
	if n == 0 {
		return 0, false
	}
	sum := 0.0
	for _, s := range r.ran[:n] {
		if limit > 0 {
			s = min(s, limit)
		}
		sum += s
	}
	return sum / float64(n), true
}

// NewPredictor knows nothing yet.
func NewPredictor() *Predictor { return &Predictor{users: map[string]*runs{}} }

// Observe says that an element of user's has ended after it ran for so long.
func (p *Predictor) Observe(user string, s *queue.Shape, ran time.Duration) {
	u := p.users[user]
	if u == nil {
		u = &runs{forms: map[form]*recent{}}
		p.users[user] = u
	}
	u.version++
	seconds := max(ran, time.Second).Seconds()
	u.last.add(seconds)
	key := formOf(s)
	r := u.forms[key]
	if r == nil {
		if len(u.forms) >= maxForms {
			u.forget()
		}
		r = &recent{}
		u.forms[key] = r
	}
	r.used = u.version
	r.add(seconds)
}

// forget drops the shape that was run longest ago.
func (u *runs) forget() {
	var oldest form
	at := u.version + 1
	for f, r := range u.forms {
		if r.used < at {
			oldest, at = f, r.used
		}
	}
	delete(u.forms, oldest)
}

// Estimate is how long an element of user's is expected to run; 0 when nothing is known and it has no limit.
func (p *Predictor) Estimate(user string, s *queue.Shape) time.Duration {
	limit := s.RunLimit.Seconds()
	u := p.users[user]
	if u == nil {
		return s.RunLimit
	}
	mean, ok := 0.0, false
	if r := u.forms[formOf(s)]; r != nil {
		mean, ok = r.mean(limit)
	}
	if !ok {
		mean, ok = u.last.mean(limit)
	}
	if !ok {
		return s.RunLimit
	}
	return time.Duration(mean * float64(time.Second))
}

// version changes when estimates for user may have.
func (p *Predictor) version(user string) uint64 {
	if u := p.users[user]; u != nil {
		return u.version
	}
	return 0
}

// Clone copies p, so that it can be asked elsewhere while this one learns.
func (p *Predictor) Clone() *Predictor {
	c := &Predictor{users: make(map[string]*runs, len(p.users))}
	for name, u := range p.users {
		x := &runs{version: u.version, last: u.last, forms: maps.Clone(u.forms)}
		for f, r := range x.forms {
			copied := *r
			x.forms[f] = &copied
		}
		c.users[name] = x
	}
	return c
}
