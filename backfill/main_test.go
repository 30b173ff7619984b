package backfill

import (
	"flag"
	"os"
	"testing"
)

// cases is how many random clusters each of the three properties is held against: together more than 10,000.
const cases = "3500"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked && !testing.Short() {
		flag.Set("rapid.checks", cases)
	}
	os.Exit(m.Run())
}
