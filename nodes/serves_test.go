package nodes

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever a request is given, the GPUs that it is given served it before; and where none serves, it does not fit.
func TestWhatIsTakenServed(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		capacity := Amount(rapid.SampledFrom([]int{1, 7, 100, 200, 500}).Draw(t, "of all"))
		for i := range n.GPUs {
			n.GPUs[i].Capacity = capacity
		}
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			r := drawRequest(t)
			before := n.Clone()
			a, misfit := n.Carve(r)
			if misfit != nil {
				continue
			}
			for _, s := range a.Slices {
				taken++
				if !before.gpu(s.UUID).Serves(&r.GPU) {
					t.Fatalf("%+v took %s, which does not serve it: %+v", r.GPU, s.UUID, *before.gpu(s.UUID))
				}
			}
		}
	})
	if taken == 0 {
		t.Error("nothing was taken: the test says nothing")
	}
}

func TestServes(t *testing.T) {
	gpu := func(used Amount) *GPU {
		return &GPU{UUID: "g", Model: "A100", Memory: 80 * gib, Capacity: 200, Mode: ModeShim, Used: used}
	}
	for _, row := range []struct {
		what string
		g    *GPU
		r    GPURequest
		want bool
	}{
		{"what is left is enough", gpu(150), GPURequest{Amount: 50}, true},
		{"and is not", gpu(151), GPURequest{Amount: 50}, false},
		{"a whole one is", gpu(0), GPURequest{Whole: 4}, true},
		{"and is not whole", gpu(1), GPURequest{Whole: 1}, false},
		{"the rest of one and a half", gpu(100), GPURequest{Amount: 300}, true},
		{"the rest is too much", gpu(101), GPURequest{Amount: 300}, false},
		{"all of it, of two", gpu(0), GPURequest{Amount: 400}, true},
		{"no rest is left over of two", gpu(1), GPURequest{Amount: 400}, false},
		{"so much memory is free", gpu(100), GPURequest{Memory: 40 * gib}, true},
		{"a byte more", gpu(100), GPURequest{Memory: 40*gib + 1}, false},
		{"another model", gpu(0), GPURequest{Amount: 50, Model: "H100"}, false},
		{"it is lost", &GPU{Capacity: 200, Lost: true}, GPURequest{Amount: 50}, false},
		{"it is worth nothing", &GPU{}, GPURequest{Amount: 50}, false},
		{"an instance is taken whole or not at all", &GPU{Capacity: 28, Mode: ModeMIG, Fraction: 1428}, GPURequest{Amount: 5}, true},
	} {
		if got := row.g.Serves(&row.r); got != row.want {
			t.Errorf("%s: %t", row.what, got)
		}
	}
}
