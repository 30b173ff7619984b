package backfill

import (
	"maps"
	"math"
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

// means are the mean and the harmonic mean of what is remembered, each run cut at limit (0: none); 0 if there is none.
func (r *recent) means(limit float64) (mean, harmonic float64) {
	n := min(r.n, remembered)
	if n == 0 {
		return 0, 0
	}
	sum, inverse := 0.0, 0.0
	for _, s := range r.ran[:n] {
		if limit > 0 {
			s = min(s, limit)
		}
		sum += s
		inverse += 1 / s
	}
	return sum / float64(n), float64(n) / inverse
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

// Estimate is how long an element of user's is expected to run: until its limit, when nothing is known of the user; 0
// when it has no limit either.
func (p *Predictor) Estimate(user string, s *queue.Shape) time.Duration {
	mean, _ := p.means(user, s)
	if mean == 0 {
		return s.RunLimit
	}
	return time.Duration(mean * float64(time.Second))
}

// typical is how long elements like this one of user's run as a rule, in seconds, between the mean and the many short
// ones: the geometric mean of the mean and the harmonic mean. 0 when nothing is known.
func (p *Predictor) typical(user string, s *queue.Shape) float64 {
	mean, harmonic := p.means(user, s)
	return math.Sqrt(mean * harmonic)
}

func (p *Predictor) means(user string, s *queue.Shape) (mean, harmonic float64) {
	u := p.users[user]
	if u == nil {
		return 0, 0
	}
	limit := s.RunLimit.Seconds()
	if r := u.forms[formOf(s)]; r != nil {
		return r.means(limit)
	}
	return u.last.means(limit)
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
