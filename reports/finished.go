package reports

import "time"

// FinishedQuery names jobs that are over. Its parts are ANDed; empty ones do not restrict, and several names of one are a choice.
type FinishedQuery struct {
	IDs                            []Ref
	Users, Queues, Hosts, Projects []string
	Done, Failed                   bool // both or none: all
	Ended, Submitted, Dispatched   Period
}

// Ref names elements of a job: those from First to Last, each Step-th. All of them are from 0 to the greatest int32.
type Ref struct {
	Job               int64
	First, Last, Step int32
}

// Finished is a job (an element of an array is one) that is over, by its last attempt.
type Finished struct {
	Job        int64
	Index      int
	User       string
	Account    string
	Queue      string // where it ended
	Project    string
	Name       string
	Hosts      []string // of the last attempt
	Submitted  time.Time
	Dispatched time.Time // zero: it never ran
	Ended      time.Time
	CPU        time.Duration
	MaxMemory  int64 // bytes
	Done       bool
}

// Summary is what bacct says of many jobs. Times are in seconds. Its terms are LSF's: the wait is from the submission to the last
// dispatch (or to the end, of a job that never ran), the turnaround from the submission to the end, the hog factor CPU
// time/turnaround, the expansion factor turnaround/run time. None is negative, whatever the clocks did.
type Summary struct {
	Done, Failed int64
	Started      int64 // of them, those that ran
	CPU          Spread
	Wait         Spread
	Turnaround   Spread
	Hog          Spread
	Expansion    float64   // sum over those that ran for a time
	Run          float64   // sum
	First, Last  time.Time // ends; zero without jobs
}

// Spread is the sum of some numbers, and the greatest and the least of them.
type Spread struct{ Sum, Max, Min float64 }

func (s *Spread) add(v float64, first bool) {
	s.Sum += v
	s.Max = max(s.Max, v)
	if first || v < s.Min {
		s.Min = v
	}
}

func (s *Spread) merge(o Spread, first bool) {
	s.Sum += o.Sum
	s.Max = max(s.Max, o.Max)
	if first || o.Min < s.Min {
		s.Min = o.Min
	}
}

// Jobs is how many jobs the summary is of.
func (s *Summary) Jobs() int64 { return s.Done + s.Failed }

// Add counts a job.
func (s *Summary) Add(f *Finished) {
	first := s.Jobs() == 0
	if f.Done {
		s.Done++
	} else {
		s.Failed++
	}
	cpu, wait, turnaround, run := f.CPU.Seconds(), f.Wait().Seconds(), f.Turnaround().Seconds(), f.Run().Seconds()
	s.CPU.add(cpu, first)
	s.Wait.add(wait, first)
	s.Turnaround.add(turnaround, first)
	s.Hog.add(f.Hog(), first)
	s.Run += run
	if !f.Dispatched.IsZero() {
		s.Started++
	}
	if run > 0 {
		s.Expansion += turnaround / run
	}
	if first || f.Ended.Before(s.First) {
		s.First = f.Ended
	}
	if first || f.Ended.After(s.Last) {
		s.Last = f.Ended
	}
}

// Merge adds what another summary is of. No job may be in both.
func (s *Summary) Merge(o *Summary) {
	if o.Jobs() == 0 {
		return
	}
	first := s.Jobs() == 0
	s.Done += o.Done
	s.Failed += o.Failed
	s.Started += o.Started
	s.CPU.merge(o.CPU, first)
	s.Wait.merge(o.Wait, first)
	s.Turnaround.merge(o.Turnaround, first)
	s.Hog.merge(o.Hog, first)
	s.Expansion += o.Expansion
	s.Run += o.Run
	if first || o.First.Before(s.First) {
		s.First = o.First
	}
	if first || o.Last.After(s.Last) {
		s.Last = o.Last
	}
}

// Wait is the time from the submission to the last dispatch, or to the end where there was none.
func (f *Finished) Wait() time.Duration {
	if f.Dispatched.IsZero() {
		return f.Turnaround()
	}
	return max(f.Dispatched.Sub(f.Submitted), 0)
}

// Turnaround is the time from the submission to the end.
func (f *Finished) Turnaround() time.Duration { return max(f.Ended.Sub(f.Submitted), 0) }

// Run is the time from the last dispatch to the end.
func (f *Finished) Run() time.Duration {
	if f.Dispatched.IsZero() {
		return 0
	}
	return max(f.Ended.Sub(f.Dispatched), 0)
}

// Hog is CPU time/turnaround; 0 where there was no time.
func (f *Finished) Hog() float64 {
	if f.Turnaround() <= 0 {
		return 0
	}
	return f.CPU.Seconds() / f.Turnaround().Seconds()
}
