package web

import (
	"fmt"

	"fairslice/queue"
)

// sliceUse is what an attempt uses of one slice, as bars: each is a share of what the slice has, in 1/1000.
type sliceUse struct {
	Name     string
	Measured bool
	Memory   bar
	Time     bar
}

// bar is how full something is, now and at most.
type bar struct {
	Text      string
	Now, Peak int
}

// sliceUses are the slices of an attempt. Only the node that runs the command measures.
func sliceUses(a *queue.Attempt) []sliceUse {
	var out []sliceUse
	for i, alloc := range a.Alloc {
		for _, s := range alloc.Slices {
			u := sliceUse{Name: fmt.Sprintf("%s, GPU %d: %s fGPU, %s", alloc.Node, s.Index, s.Amount, s.Mode)}
			g := a.Usage.GPU(s.UUID)
			if i == 0 && g != nil {
				u.Measured = true
				u.Memory = bar{fmt.Sprintf("%d / %d MiB", g.Memory>>20, s.Memory>>20), thousandths(g.Memory, s.Memory), thousandths(g.MaxMemory, s.Memory)}
				u.Time = bar{fmt.Sprintf("%.1f / %.1f %%", float64(g.Util)/100, float64(s.SMShare)/100), thousandths(int64(g.Util), int64(s.SMShare)), thousandths(int64(g.MeanShare()), int64(s.SMShare))}
			}
			out = append(out, u)
		}
	}
	return out
}

func thousandths(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(1000 * min(float64(part)/float64(whole), 1))
}
