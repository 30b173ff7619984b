package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/queue"
)

// policed is a batchd with a policy.
func policed() *fake {
	at := time.Date(2026, 3, 18, 1, 0, 0, 0, time.UTC)
	return &fake{policy: queue.PolicyState{Version: 7, By: "root", At: at, Text: "account chem shares=1\naccount physics shares=3\n" +
		"user ada account=physics shares=1\nlimit user=ada running=5\n"}}
}

func TestPolicyCommandsChangeOneThing(t *testing.T) {
	for line, diff := range map[string]string{
		"account add lab parent=physics shares=2":     "account lab: added: account lab parent=physics shares=2",
		"account mod chem shares=4":                   "account chem: shares 1 becomes 4",
		"account rm chem":                             "account chem: removed: account chem shares=1",
		"user add eve account=chem":                   "user eve in account chem: added: user eve account=chem shares=1 default",
		"user rm ada":                                 "user ada in account physics: removed: user ada account=physics shares=1 default",
		"share set account=physics shares=0":          "account physics: shares 3 becomes 0",
		"share set account=physics user=ada shares=9": "user ada in account physics: shares 1 becomes 9",
		"limit set user=ada slots=8 running=6":        "limit user=ada: running 5 becomes 6; slots unlimited becomes 8",
		"limit set all rate=100/m":                    "limit all: added: limit all rate=100/m",
		"limit rm user=ada":                           "limit user=ada: removed: limit user=ada running=5",
	} {
		f := policed()
		f.do("badmin "+line).want(t, 0, diff+"\nVersion 8 of the policy is in force.\n", "")
		if f.change.Base != 7 {
			t.Errorf("%s is based on version %d", line, f.change.Base)
		}
		f = policed()
		f.do("badmin -n "+line).want(t, 0, diff+"\nNothing was changed (-n): version 7 of the policy stays in force.\n", "")
		f.do("badmin "+line+" -n").want(t, 0, diff+"\nNothing was changed (-n): version 7 of the policy stays in force.\n", "")
	}
	f := policed()
	f.do("badmin user add ada account=chem default").has(t, 0, "user ada in account chem: added", "")
	f.do("badmin user default ada account=physics").has(t, 0, "becomes the default", "")
	f.run([]string{"badmin", "account", "mod", "chem", "name=chemistry", "description=All of it"}, "").has(t, 0, "account chemistry: added: account chemistry shares=1 description=\"All of it\"\n", "")
	f.do("badmin budget set account=physics fgpu_hours=100 period=month hard").has(t, 0, "budget account=physics", "")
	f.do("badmin budget show").want(t, 0, "budget account=physics fgpu_hours=100 period=month hard\n", "")
	f.do("badmin budget rm account=physics fgpu_hours").has(t, 0, "removed", "")
	f.do("badmin share set account=physics shares=3").want(t, 0, "Nothing is different: version 12 of the policy stays in force.\n", "")
}

func TestPolicyCommandsRefuse(t *testing.T) {
	for line, text := range map[string]string{
		"account":                                 "account: what to do?",
		"account frob x":                          "account frob: no such command",
		"user show":                               "user show: no such command",
		"account add":                             "want a name first",
		"account add chem":                        "account chem: there is one already",
		"account add x parent=nosuch":             "its parent nosuch has no line",
		"account add x shares=-1":                 "shares=-1: want a number from 0 to 1000000",
		"account add x shares=1 shares=2":         "shares: it is given twice",
		"account add x colour=red":                "colour=red: not understood; want parent=… shares=… description=…",
		"account mod chem":                        "want what to change",
		"account mod nosuch shares=2":             "account nosuch: there is none",
		"account mod physics parent=physics":      "it is in itself",
		"account rm physics":                      "user ada is in it",
		"account rm chem x":                       "x: not understood; want nothing more",
		"user add eve":                            "want account=NAME",
		"user rm nosuch":                          "user nosuch: has no line",
		"share set account=physics":               "want account=NAME, shares=N",
		"limit set user=ada running=many":         "running",
		"limit set":                               "want whom it is for",
		"limit rm each-user":                      "there is none",
		"budget set account=physics fgpu_hours=5": "want period=month",
		"budget set account=physics fgpu_hours=1 period=until:2026-02-30 hard": "2026-02-30",
		"budget rm":                 "want account=NAME",
		"policy log 0":              "want how many changes",
		"policy show 1":             "takes no more words",
		"account load":              "needs the name of one file",
		"account load /nosuch/file": "no such file",
	} {
		f := policed()
		f.do("badmin "+line).has(t, failed, "", text)
		if f.change.Text != "" {
			t.Errorf("%s: sent %q", line, f.change.Text)
		}
	}
}

func TestAPolicyFileIsShownAndLoaded(t *testing.T) {
	f := policed()
	shown := f.do("badmin policy show")
	shown.want(t, 0, "# version 7, set by root at 2026-03-18 01:00:00\n"+f.policy.Text, "")
	f.do("badmin limit show").want(t, 0, "limit user=ada running=5\n", "")
	f.do("badmin account show").want(t, 0, "account chem shares=1\naccount physics shares=3\nuser ada account=physics shares=1\n", "")
	f.do("badmin budget show").want(t, 0, "", "No budget found\n")
	f.do("badmin limit show -json").has(t, 0, `"TEXT":"limit user=ada running=5"`, "")

	file := filepath.Join(t.TempDir(), "site.policy")
	if err := os.WriteFile(file, []byte(shown.out+"limit all slots=100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.do("badmin account load -n "+file).has(t, 0, "limit all: added: limit all slots=100\nNothing was changed (-n)", "")
	f.do("badmin account load "+file).has(t, 0, "Version 8 of the policy is in force.\n", "")
	// Another administrator works on the same print.
	f.do("badmin account load "+file).want(t, failed, "", "The policy was changed meanwhile: version 8 is in force\n")
	f.do("badmin account load -f "+file).has(t, 0, "Nothing is different: version 8", "")
	f.run([]string{"badmin", "account", "load", "-"}, "account a\n").has(t, 0, "Version 9 of the policy is in force.\n", "")
	f.run([]string{"badmin", "account", "load", "-"}, "account a\nuser\nlimit all x=1\n").has(t, failed, "", "-: nothing was changed:\nline 2: user: want a name after it")
	f.run([]string{"badmin", "account", "load", "-"}, strings.Repeat("#", 5<<20)).has(t, failed, "", "at most 4194304 are read")
	f.policy = queue.PolicyState{}
	f.do("badmin policy show").want(t, 0, "# version 0: none was ever set\n", "")
}

func TestLimitsOfWhatIsGoneAreMarked(t *testing.T) {
	f := policed()
	f.policy.Text = "limit queue=gone slots=1\nlimit queue=normal slots=1\nlimit image=base running=1\nlimit image=old:2 running=1\nlimit image=/home/x.sif slots=1\n"
	f.queues = &pb.QueuesResponse{Queues: []*pb.Queue{{Name: "normal"}}}
	f.images = []*pb.Image{{Name: "base:latest"}, {Name: "old:1"}}
	note := "Note: limit queue=gone: there is no such queue any more, and so it limits nothing\nNote: limit image=old:2: there is no such image any more, and so it limits nothing\n"
	f.do("badmin limit show").want(t, 0, f.policy.Text, note)
	f.do("badmin policy show").has(t, 0, "# version 7", note)
	f.do("badmin account show").want(t, 0, "", "No account found\n")
	// What no limit names is not asked for.
	f.policy.Text, f.listings = "limit queue=gone slots=1\n", 0
	f.do("badmin limit show").want(t, 0, f.policy.Text, note[:strings.Index(note, "\n")+1])
	f.policy.Text = "limit user=ada slots=1\n"
	if f.do("badmin limit show").want(t, 0, f.policy.Text, ""); f.listings > 0 {
		t.Error("images are asked for that no limit names")
	}
}

func TestPolicyLog(t *testing.T) {
	f := policed()
	f.do("badmin policy log").want(t, 0, "", "No change found\n")
	f.entries = []queue.PolicyEntry{{PolicyState: f.policy, Diff: []string{"limit user=ada: running 4 becomes 5", "account chem: added: account chem shares=1"}}}
	f.do("badmin policy log 3").want(t, 0, "2026-03-18 01:00:00  root  version 7\n    limit user=ada: running 4 becomes 5\n    account chem: added: account chem shares=1\n", "")
	if f.limit != 3 {
		t.Errorf("asked for %d", f.limit)
	}
	f.do("badmin policy log -json").has(t, 0, `"DIFFERENCES"`, "")
}
