package tenant_test

import (
	"fmt"
	"testing"

	"fairslice/nodes/fgpu/tenant"
)

// families and whether memory of theirs is taken from a pool, which grows by chunks of its own.
var families = []struct {
	name   string
	pooled bool
}{
	{"malloc", false}, {"pitch", false}, {"async", true}, {"pool", true}, {"vmm", false}, {"array", false}, {"mipmap", false},
	{"managed", false}, {"graph", true},
}

func TestEachFamilyFillsTheSliceAndNotAByteMore(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m := machine(t)
			r := slice(t, m, 2*gib, 10_000)
			k := talk(t, m, r.Dir())
			l := tell(t, k, "fill "+f.name)
			if !l.Has("ok") {
				t.Fatal(l)
			}
			before, after, total, granule := l.Number("before"), l.Number("after"), l.Number("total"), l.Number("granule")
			if before != 2*gib-contextFee {
				t.Errorf("free at first: %d, want the limit without a context, %d", before, 2*gib-contextFee)
			}
			if after < 0 || after >= granule {
				t.Errorf("%d bytes are left: want less than a granule of %d", after, granule)
			}
			if !f.pooled && total != before-after {
				t.Errorf("got %d of %d bytes, and %d are left", total, before, after)
			}
			if w, _ := l.Word("next"); w != "CUDA_ERROR_OUT_OF_MEMORY" {
				t.Errorf("one granule more: %s", w)
			}
			_, each := ledger(t, m)
			if got := each[k.PID()]; got != 2*gib-after {
				t.Errorf("the driver says %d bytes: want the limit less what is left, %d", got, 2*gib-after)
			}
			if u := settle(t, r); u.Held != each[k.PID()] || u.Denied == 0 {
				t.Errorf("the region says %+v, the driver %d bytes", u, each[k.PID()])
			}
			if l := tell(t, k, "free all"); !l.Has("ok") {
				t.Error(l)
			}
			// Freed memory can be had again, by another family as well.
			if l := tell(t, k, "fill vmm"); !l.Has("ok") {
				t.Error(l)
			}
		})
	}
}

func TestAllFamiliesTogetherFillTheSlice(t *testing.T) {
	m := machine(t)
	r := slice(t, m, 2*gib, 10_000)
	k := talk(t, m, r.Dir())
	for _, f := range families {
		if l := tell(t, k, fmt.Sprintf("alloc %s %d", f.name, 128*mib)); !l.Has("ok") {
			t.Fatal(l)
		}
	}
	if l := tell(t, k, "fill malloc"); !l.Has("ok") || l.Number("after") >= 512 {
		t.Fatal(l)
	}
	_, each := ledger(t, m)
	if each[k.PID()] > 2*gib {
		t.Errorf("the driver says %d bytes", each[k.PID()])
	}
	for id := range families {
		if l := tell(t, k, fmt.Sprint("free ", id)); !l.Has("ok") {
			t.Error(l)
		}
	}
	if l := tell(t, k, "free all"); !l.Has("ok") {
		t.Error(l)
	}
	k.Kill()
	if u := settle(t, r); u.Held != 0 || u.Processes != 0 {
		t.Errorf("after the last process: %+v", u)
	}
}

func TestCUDAAndNVMLTellTheSameSlice(t *testing.T) {
	m := machine(t)
	r := slice(t, m, 2*gib, 2500)
	lines := do(t, m, r.Dir(), "alloc", "malloc", "100M", "info", "nvml")
	used := 100*mib + contextFee
	for begins, want := range map[string]map[string]int64{
		"info device":  {"total": 2 * gib},
		"info memory":  {"total": 2 * gib, "used": used, "free": 2*gib - used},
		"nvml memory ": {"total": 2 * gib, "used": used, "free": 2*gib - used},
		"nvml memory2": {"total": 2 * gib, "used": used, "free": 2*gib - used, "reserved": 0},
	} {
		l := find(t, lines, begins)
		for word, n := range want {
			if l.Number(word) != n {
				t.Errorf("%s: want %s %d", l, word, n)
			}
		}
	}
}

func TestJobsOfOneGPUDoNotSeeEachOther(t *testing.T) {
	m := machine(t)
	a, b := slice(t, m, 2*gib, 10_000), slice(t, m, 2*gib, 10_000)
	k := talk(t, m, a.Dir())
	if l := tell(t, k, "fill malloc"); !l.Has("ok") {
		t.Fatal(l)
	}
	l := find(t, do(t, m, b.Dir(), "fill", "malloc"), "fill")
	if l.Number("total") != 2*gib-contextFee {
		t.Errorf("beside a full slice: %s", l)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		want  map[string]string // line that begins so: word in it
	}{
		{"of nothing", 0, map[string]string{"alloc": "CUDA_ERROR_OUT_OF_MEMORY"}},
		{"below a context", contextFee - 1, map[string]string{"alloc": "CUDA_ERROR_OUT_OF_MEMORY"}},
		{"of a context alone", contextFee, map[string]string{"info memory": "0", "alloc": "CUDA_ERROR_OUT_OF_MEMORY"}},
		{"above the card", 2 * card, map[string]string{"info memory": fmt.Sprint(card), "alloc": "ok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(t)
			r := sliceOf(t, m, tenant.Slice{Memory: c.limit, Share: 10_000, Context: contextFee})
			lines := do(t, m, r.Dir(), "info", "alloc", "malloc", "1")
			for begins, word := range c.want {
				if l := find(t, lines, begins); !l.Has(word) {
					t.Errorf("%s: want %s", l, word)
				}
			}
			if sum, _ := ledger(t, m); sum != 0 {
				t.Errorf("%d bytes outlive their process", sum)
			}
		})
	}
}

func TestASliceAboveTheCardGetsTheCard(t *testing.T) {
	m := machine(t)
	r := slice(t, m, 2*card, 10_000)
	if l := find(t, do(t, m, r.Dir(), "fill", "malloc"), "fill"); l.Number("total") != card-contextFee {
		t.Error(l)
	}
}

// What an array takes is for the driver to choose, and it does not tell: of shapes that are no whole tiles the shim charges what
// they can take at most, never less than they do.
func TestArraysOfOddShapesAreChargedEnough(t *testing.T) {
	m := machine(t)
	r := slice(t, m, gib, 10_000)
	k := talk(t, m, r.Dir())
	for _, bytes := range []int64{1, 4, 11676, 65536, 65540, 3 * 65536, 5*mib + 4} {
		for _, family := range []string{"array", "mipmap"} {
			if l := tell(t, k, fmt.Sprintf("alloc %s %d", family, bytes)); !l.Has("ok") {
				t.Fatal(l)
			}
			driver, _ := ledger(t, m)
			if u := settle(t, r); u.Held < driver {
				t.Errorf("%s of %d bytes: slots %d, driver %d", family, bytes, u.Held, driver)
			}
		}
	}
	if l := tell(t, k, "free all"); !l.Has("ok") {
		t.Error(l)
	}
	if u := settle(t, r); u.Held != contextFee {
		t.Errorf("after all are freed: %+v", u)
	}
}
