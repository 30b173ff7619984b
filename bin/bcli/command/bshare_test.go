package command

import (
	"math"
	"slices"
	"testing"
	"time"

	"fairslice/api/pb"
)

func shared() *fake {
	at := time.Date(2026, 3, 18, 1, 0, 0, 0, time.UTC)
	return &fake{shares: &pb.SharesResponse{At: at.UnixNano(), HalfLife: int64(7 * 24 * time.Hour), GpuWeight: 8, Used: true, Tree: []*pb.Share{
		{Account: "root", Shares: 1, Share: 1, Usage: 1, Used: 3600000, LevelFairShare: 1},
		{Account: "physics", Depth: 1, Shares: 3, Share: .75, Usage: .61, Used: 2196000, LevelFairShare: .75 / .61},
		{Account: "physics", User: "ada", Depth: 2, Shares: 1, Share: 1, Usage: 1, Used: 2196000, LevelFairShare: 1, Rank: 1, Factor: 1},
		{Account: "chem", Depth: 1, Shares: 1, Share: .25, Usage: .39, Used: 1404000, LevelFairShare: .25 / .39},
		{Account: "chem", User: "bob", Depth: 2, Shares: 1, Share: .5, LevelFairShare: math.Inf(1), Rank: 2, Factor: .5},
	}}}
}

func TestBshare(t *testing.T) {
	f := shared()
	f.do("bshare").want(t, 0, `Usage at Wed Mar 18 01:00:00 2026; half of it is forgotten every 7 d; 1 fGPU counts as 8 slots
ACCOUNT/USER             SHARES  SHARE%  USAGE%  USED(SLOT-H)        LF   RANK  FACTOR
root                          1  100.00  100.00          1000         1      -       -
 physics                      3   75.00   61.00           610      1.23      -       -
  ada                         1  100.00  100.00           610         1      1       1
 chem                         1   25.00   39.00           390     0.641      -       -
  bob                         1   50.00    0.00             0       inf      2     0.5
`, "")
	f.do("bshare -json").has(t, 0, `"LEVEL_FAIR_SHARE":null`, "")
	f.shares.MemoryWeight = 0.25
	f.shares.Tree[2].SlotSeconds, f.shares.Tree[2].FgpuSeconds, f.shares.Tree[2].GibSeconds = 1800000, 45000, 144000
	f.do("bshare").has(t, 0, "1 fGPU counts as 8 slots, 1 GiB of memory as 0.25\n", "")
	f.do("bshare -json").has(t, 0, `"USED_SLOT_SECONDS":2.196e+06,
      "SLOT_SECONDS":1.8e+06,
      "FGPU_SECONDS":45000,
      "GIB_SECONDS":144000,
      "FGPU_WEIGHT":8,
      "GIB_WEIGHT":0.25,
`, "")
	f.shares.Flat, f.shares.Used = true, false
	f.do("bshare").has(t, 0, "There are no accounts: all users have equal shares", "")
	f.do("bshare").has(t, 0, "The scheduler's order does not ask for fair share", "")
}

func TestBshareCompares(t *testing.T) {
	f := shared()
	f.shares.Why = []string{"physics goes first", "So ada has rank 1\x1b"}
	f.do("bshare ada chem/bob").want(t, 0, "physics goes first\nSo ada has rank 1\\x1b\n", "")
	if !slices.Equal(f.named, []string{"ada", "chem/bob"}) {
		t.Errorf("asked for %q", f.named)
	}
	f.do("bshare -json ada bob").has(t, 0, `"physics goes first"`, "")
	f.do("bshare ada").has(t, 255, "", "bshare: want no user for the tree, or two to compare")
}
