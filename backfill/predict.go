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
	f := form{s.Slots, s.RunLimit, s.Host.Memory, s.Host.GPU, s.Select}
	f.gpu.User = "" // forms are one user's; whether a plan says so depends on the cluster
	return f
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

// sums adds up what is remembered, each run cut to [shortest, limit] (0: none), and the inverses.
func (r *recent) sums(limit float64) (n, sum, inverse float64) {
	for _, s := range r.ran[:min(r.n, remembered)] {
		if limit > 0 {
			s = min(s, limit)
		}
		s = max(s, shortest)
		n, sum, inverse = n+1, sum+s, inverse+1/s
	}
	return n, sum, inverse
}

// shortest is the run time, in seconds, below which a wait hurts no more: that of the bounded slowdown.
const shortest = 10

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
	u := p.users[user]
	if u == nil {
		return s.RunLimit
	}
	r := u.forms[formOf(s)]
	if r == nil {
		r = &u.last
	}
	n, sum, _ := r.sums(s.RunLimit.Seconds())
	return time.Duration(sum / n * float64(time.Second))
}

// typical is how long elements like this one of user's run as a rule, in seconds, between the mean and the many short
// ones: the geometric mean of the mean and the harmonic mean. The run limit counts like one run in the harmonic mean of the
// user's runs, and that mean like three runs in that of the shape's, so that one short run does not decide it.
func (p *Predictor) typical(user string, s *queue.Shape) float64 {
	limit := float64(longest)
	if s.RunLimit > 0 {
		limit = max(s.RunLimit.Seconds(), shortest)
	}
	u := p.users[user]
	if u == nil {
		return limit
	}
	n, sum, inverse := u.last.sums(s.RunLimit.Seconds())
	mean, inverse := sum/n, (1/limit+inverse)/(1+n)
	if r := u.forms[formOf(s)]; r != nil {
		m, own, ownInverse := r.sums(s.RunLimit.Seconds())
		mean, inverse = own/m, (3*inverse+ownInverse)/(3+m)
	}
	return math.Sqrt(mean / inverse)
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
