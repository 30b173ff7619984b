package etc

import (
	"math"
	"strings"
	"testing"
)

func TestPolicyAndProtectedAgree(t *testing.T) {
	for text, want := range map[string]Scheduler{
		"":                                    {Policy: "easy", Protected: 1},
		"policy = 'easy'":                     {Policy: "easy", Protected: 1},
		"policy = 'easy'\nprotected = 1":      {Policy: "easy", Protected: 1},
		"policy = 'fcfs'":                     {Policy: "fcfs"},
		"policy = 'conservative'":             {Policy: "conservative"},
		"protected = 1":                       {Policy: "protected", Protected: 1},
		"protected = 7":                       {Policy: "protected", Protected: 7},
		"policy = 'protected'\nprotected = 7": {Policy: "protected", Protected: 7},
		"protected = 1000000\nplacement='packing'": {Policy: "protected", Protected: 1_000_000},
	} {
		s := mustParse(t, "[scheduler]\n"+text).Scheduler
		if s.Policy != want.Policy || s.Protected != want.Protected {
			t.Errorf("%q gives %s with %d, want %s with %d", text, s.Policy, s.Protected, want.Policy, want.Protected)
		}
	}
}

func TestGPUWeights(t *testing.T) {
	for text, want := range map[string]GPUWeight{"'auto'": AutoGPUWeight, "0": 0, "0.0": 0, "16": 16, "+2.5": 2.5, "0x10": 16, "1e6": 1e6} {
		if got := mustParse(t, "[scheduler]\ngpu_weight = "+text).Scheduler.GPUWeight; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func TestSchedulerMistakes(t *testing.T) {
	for _, row := range []struct{ what, text, want string }{
		{"an unknown key", "half_lif = \"1h\"", "x:2:1: scheduler.half_lif: unknown key; did you mean half_life?; allowed here: policy, protected, order, weights,"},
		{"an unknown policy", "policy = \"eazy\"", `x:2:1: scheduler.policy: want one of fcfs, easy, conservative, protected; got "eazy"`},
		{"no policy", "policy = \"\"", `x:2:1: scheduler.policy: want one of fcfs, easy, conservative, protected; got ""`},
		{"protected by none", "protected = 0", "x:2:1: scheduler.protected: 0 is no limit"},
		{"protected by less than none", "protected = -1", "x:2:1: scheduler.protected: must not be negative; got -1"},
		{"protected by too many", "protected = 1000001", "x:2:1: scheduler.protected: want 1 to 1000000; got 1000001"},
		{"a number that is missing", "policy = \"protected\"", `x:2:1: scheduler.policy: "protected" needs the key protected`},
		{"two against EASY", "policy = \"easy\"\nprotected = 2", `x:3:1: scheduler.protected: contradicts policy "easy" (line 2), which protects 1 job`},
		{"one against FCFS", "policy = \"fcfs\"\nprotected = 1", `x:3:1: scheduler.protected: contradicts policy "fcfs" (line 2)`},
		{"some against all", "protected = 9\npolicy = \"conservative\"", `x:2:1: scheduler.protected: contradicts policy "conservative" (line 3)`},
		{"an unreadable policy is told alone", "policy = 5\nprotected = 9", "x:2:1: scheduler.policy: want a text in quotes; got 5"},
		{"an unknown order", "order = \"fifo\"", "x:2:1: scheduler.order: want one of default, fcfs, fairshare, xfactor, sjf"},
		{"weights of another order", "order = \"sjf\"\nweights = { age = 1 }", `x:3:1: scheduler.weights: have no meaning with order "sjf" (line 2): they are of order "default"`},
		{"weights that weigh nothing", "[scheduler.weights]\nage = 0", "x:2:12: scheduler.weights: want at least one weight above 0"},
		{"weights without any", "weights = {}", "x:2:1: scheduler.weights: want at least one weight above 0"},
		{"an unknown weight", "weights = { sizes = 1, age = 1 }", "x:2:13: scheduler.weights.sizes: unknown key; did you mean size?"},
		{"a negative weight", "weights = { age = -0.5 }", "x:2:13: scheduler.weights.age: want a number of 0 or more; got -0.5"},
		{"a negative whole weight", "weights = { age = -5 }", "x:2:13: scheduler.weights.age: must not be negative; got -5"},
		{"a weight that is no number", "weights = { age = nan, size = inf, xfactor = 5e300 }", "x:2:13: scheduler.weights.age: want a number of 0 or more; got nan|" +
			"x:2:24: scheduler.weights.size: want a number of 0 or more; got inf|x:2:36: scheduler.weights.xfactor: want 0 to 1000000; got 5e+300"},
		{"a weight too large", "weights = { age = 1000001 }", "x:2:13: scheduler.weights.age: want 0 to 1000000; got 1.000001e+06"},
		{"a weight in quotes", "weights = { age = \"1\" }", `x:2:13: scheduler.weights.age: want a number of 0 or more; got "1"`},
		{"a half-life of nothing", "half_life = \"0s\"", "x:2:1: scheduler.half_life: want 1m0s to 8760h0m0s; got 0s"},
		{"a half-life backwards", "half_life = \"-1h\"", "x:2:1: scheduler.half_life: want 1m0s to"},
		{"a half-life of no unit", "half_life = 7", "x:2:1: scheduler.half_life: want a duration with its units"},
		{"a guard of nothing", "age_guard = \"0s\"", "x:2:1: scheduler.age_guard: want 1m0s to 8760h0m0s; got 0s"},
		{"a weight of GPUs that is a word", "gpu_weight = \"automatic\"", `x:2:1: scheduler.gpu_weight: want "auto", or a number of 0 or more; got "automatic"`},
		{"a negative weight of GPUs", "gpu_weight = -1.0", `x:2:1: scheduler.gpu_weight: want "auto", or a number of 0 or more; got -1.0`},
		{"a weight of GPUs that is none", "gpu_weight = nan", `x:2:1: scheduler.gpu_weight: want "auto", or a number`},
		{"a weight of GPUs too large", "gpu_weight = 1e7", "x:2:1: scheduler.gpu_weight: want 0 to 1000000; got 1e+07"},
		{"a negative weight of memory", "memory_weight = -0.5", "x:2:1: scheduler.memory_weight: want a number of 0 or more; got -0.5"},
		{"a weight of memory that is a word", "memory_weight = \"auto\"", `x:2:1: scheduler.memory_weight: want a number of 0 or more; got "auto"`},
		{"a weight of memory too large", "memory_weight = 1000001", "x:2:1: scheduler.memory_weight: want 0 to 1000000; got 1.000001e+06"},
		{"an unknown placement", "placement = \"worst-fit\"", "x:2:1: scheduler.placement: want one of fragmentation, best-fit, packing"},
		{"no starts", "max_starts = 0", "x:2:1: scheduler.max_starts: want 1 to 1000000; got 0"},
		{"no forecasts", "max_forecasts = 0", "x:2:1: scheduler.max_forecasts: want 1 to 1000000; got 0"},
		{"a guess", "predict = \"yes\"", `x:2:1: scheduler.predict: want true or false; got "yes"`},
	} {
		text := row.text
		if !strings.HasPrefix(text, "[") {
			text = "[scheduler]\n" + text
		}
		if strings.HasPrefix(text, "[scheduler.weights]") {
			text = "\n" + text
		}
		_, err := Parse("x", []byte(text))
		if err == nil {
			t.Errorf("%s: no mistake was found", row.what)
			continue
		}
		got, want := strings.Split(err.Error(), "\n"), strings.Split(row.want, "|")
		if len(got) != len(want) {
			t.Errorf("%s: got\n%v\nwant\n%s", row.what, err, row.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s: got\n%s\nwant\n%s…", row.what, got[i], want[i])
			}
		}
	}
}

func TestASchedulerMadeByAProgramIsJudgedToo(t *testing.T) {
	c := Default()
	c.Scheduler.Weights.Size, c.Scheduler.GPUWeight, c.Scheduler.HalfLife = math.NaN(), GPUWeight(math.Inf(1)), 0
	err := c.Validate()
	want := "scheduler.weights.size: want 0 to 1000000; got NaN\n" +
		"scheduler.half_life: want 1m0s to 8760h0m0s; got 0s\n" +
		"scheduler.gpu_weight: want 0 to 1000000; got +Inf"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
