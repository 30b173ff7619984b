package etc

import "time"

// Scheduler is who goes first, who is promised a start, and where jobs are placed. As Parse gives it, Policy and
// Protected agree.
type Scheduler struct {
	Policy    string `toml:"policy"`               // fcfs, easy, conservative, protected
	Protected int    `toml:"protected" as:"limit"` // jobs that are promised a start; 0: as Policy says
	Order     string `toml:"order"`                // default, fcfs, fairshare, xfactor, sjf
	// Weights replace those that order "default" has of its own. The zero value: none were given.
	Weights      Weights       `toml:"weights"`
	AgeGuard     time.Duration `toml:"age_guard"`
	Predict      bool          `toml:"predict"`
	HalfLife     time.Duration `toml:"half_life"`
	GPUWeight    GPUWeight     `toml:"gpu_weight"`
	MemoryWeight float64       `toml:"memory_weight"` // slots that one GiB of a host's memory counts as
	Placement    string        `toml:"placement"`     // fragmentation, best-fit, packing
	MaxStarts    int           `toml:"max_starts"`
	MaxForecasts int           `toml:"max_forecasts"`
}

// Weights are those of a job's factors, each 0 to 1, which are added: 0 leaves a factor out, and none can undo the others.
type Weights struct {
	FairShare float64 `toml:"fairshare"` // the fair-share factor of the job's user
	Age       float64 `toml:"age"`       // time waited
	XFactor   float64 `toml:"xfactor"`   // how much its wait costs the job, by the time that it runs
	Size      float64 `toml:"size"`      // smallness
}

// GPUWeight is how many slots one fGPU counts as in a user's usage.
type GPUWeight float64

// AutoGPUWeight stands for "auto": what accounting.GPUWeight makes of the nodes.
const AutoGPUWeight GPUWeight = -1

// maxWeight bounds what weighs something; accounting.MaxWeight is the same.
const maxWeight = 1_000_000

var (
	policyWords    = []string{"fcfs", "easy", "conservative", "protected"}
	orderWords     = []string{"default", "fcfs", "fairshare", "xfactor", "sjf"}
	placementWords = []string{"fragmentation", "best-fit", "packing"}
)

// newScheduler is a [scheduler] with nothing in it, before complete.
func newScheduler() Scheduler {
	return Scheduler{
		Order:        "default",
		AgeGuard:     60 * time.Hour,
		HalfLife:     7 * 24 * time.Hour,
		GPUWeight:    AutoGPUWeight,
		Placement:    "fragmentation",
		MaxStarts:    2000,
		MaxForecasts: 10_000,
		Predict:      true,
	}
}

// complete gives the policy that a number of protected jobs means, where the file names none, and the number that EASY means.
func (s *Scheduler) complete(policyGiven bool) {
	if s.Policy == "" && !policyGiven {
		s.Policy = "easy"
		if s.Protected != 0 {
			s.Policy = "protected"
		}
	}
	if s.Policy == "easy" && s.Protected == 0 {
		s.Protected = 1
	}
}

func (v *checker) scheduler(s *Scheduler, weightsGiven bool) {
	at := func(keys ...any) path { return path{"scheduler"}.with(keys...) }
	v.oneOf(at("policy"), s.Policy, policyWords...)
	v.protected(at("protected"), s)
	v.oneOf(at("order"), s.Order, orderWords...)
	v.weights(at("weights"), s, weightsGiven)
	v.duration(at("age_guard"), s.AgeGuard, time.Minute, maxRunLimit)
	v.duration(at("half_life"), s.HalfLife, time.Minute, maxRunLimit)
	if s.GPUWeight != AutoGPUWeight {
		v.weight(at("gpu_weight"), float64(s.GPUWeight))
	}
	v.weight(at("memory_weight"), s.MemoryWeight)
	v.oneOf(at("placement"), s.Placement, placementWords...)
	v.between(at("max_starts"), s.MaxStarts, 1, 1_000_000)
	v.between(at("max_forecasts"), s.MaxForecasts, 1, 1_000_000)
}

// protected refuses a number that says something else than the policy.
func (v *checker) protected(p path, s *Scheduler) {
	policy := p[:1].with("policy")
	if !v.r.ok(p, policy) {
		return
	}
	switch {
	case s.Protected < 0 || s.Protected > 1_000_000:
		v.say(p, "want 1 to 1000000; got %d", s.Protected)
	case s.Policy == "protected" && s.Protected == 0:
		v.say(policy, `"protected" needs the key protected: how many jobs are promised a start`)
	case s.Policy == "easy" && s.Protected > 1:
		v.say(p, `contradicts policy "easy"%s, which protects 1 job; leave one of the two keys out; got %d`,
			v.r.line(policy), s.Protected)
	case (s.Policy == "fcfs" || s.Policy == "conservative") && s.Protected > 0:
		v.say(p, "contradicts policy %s%s; leave one of the two keys out; got %d", quote(s.Policy), v.r.line(policy), s.Protected)
	}
}

func (v *checker) weights(p path, s *Scheduler, given bool) {
	w := &s.Weights
	v.weight(p.with("fairshare"), w.FairShare)
	v.weight(p.with("age"), w.Age)
	v.weight(p.with("xfactor"), w.XFactor)
	v.weight(p.with("size"), w.Size)
	order := p[:1].with("order")
	switch {
	case *w == Weights{} && given && v.r.ok(p.with("fairshare"), p.with("age"), p.with("xfactor"), p.with("size")):
		v.say(p, "want at least one weight above 0; leave the section out for those that order \"default\" has of its own")
	case *w != Weights{} && s.Order != "default" && v.r.ok(order):
		v.say(p, `have no meaning with order %s%s: they are of order "default"`, quote(s.Order), v.r.line(order))
	}
}

func (v *checker) weight(p path, w float64) {
	if !(w >= 0 && w <= maxWeight) { // also what is not a number
		v.say(p, "want 0 to %d; got %v", maxWeight, w)
	}
}
