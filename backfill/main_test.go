package backfill

import (
	"flag"
	"os"
	"testing"
)

// cases is how many random clusters each of the three properties is held against: together more than 10,000. They are the
// same in every run, so that a run fails for what has changed; -rapid.seed and -rapid.checks look elsewhere.
const (
	cases = "3500"
	seed  = "1996"
)

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" || f.Name == "rapid.seed" })
	if !asked && !testing.Short() {
		flag.Set("rapid.checks", cases)
		flag.Set("rapid.seed", seed)
	}
	os.Exit(m.Run())
}
