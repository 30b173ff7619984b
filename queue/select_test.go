package queue

import (
	"strings"
	"testing"

	"fairslice/nodes"
)

var testSite = ResReqOptions{Unit: mib, Consumables: []string{"license", "verilog_lic"}, Booleans: []string{"hpux", "rhel6", "rhel7", "gpu32gb"}}

func TestParseSelect(t *testing.T) {
	for _, c := range []struct{ name, in, want, err string }{
		{"nothing", " ", "", ""},
		{"a size in the site's unit", "mem>4096", "mem > 4G", ""},
		{"a size with a unit", "mem>=1500K", "mem >= 1500K", ""},
		{"no memory at all", "mem>0", "mem > 0K", ""},
		{"one = is two", "ncpus=4", "ncpus == 4", ""},
		{"decimals", "ut<0.50", "ut < 0.5", ""},
		{"a number by itself", "ngpus", "ngpus != 0", ""},
		{"a size by itself", "mem", "mem != 0K", ""},
		{"a consumable", "license>0 && license", "license > 0 && license != 0", ""},
		{"ERT's host", "hname!='h-1.x'", "hname != 'h-1.x'", ""},
		{"a text without quotes", "type==X86_64&&model==any", "type == 'X86_64' && model == 'any'", ""},
		{"a text with a quote", `hname=="it's"`, `hname == "it's"`, ""},
		{"booleans", "rhel6||rhel7", "rhel6 || rhel7", ""},
		{"&& binds closer than ||", "rhel6 || rhel7 && hpux", "rhel6 || rhel7 && hpux", ""},
		{"parentheses that matter stay", "(rhel6 || rhel7) && hpux", "(rhel6 || rhel7) && hpux", ""},
		{"others go", "((rhel6) && (rhel7 && (hpux)))", "rhel6 && rhel7 && hpux", ""},
		{"! of a name", "!hpux && ! ! rhel6", "!hpux && !!rhel6", ""},
		{"! of a comparison", "!mem>5M", "!(mem > 5M)", ""},
		{"! of a parenthesis", "!(rhel6||rhel7)", "!(rhel6 || rhel7)", ""},
		{"defined", "defined(verilog_lic)", "defined(verilog_lic)", ""},

		{"an unknown name", "abc==abc", "", "Resource <abc> cannot be used in the resource requirement section"},
		{"unknown in defined", "defined(abc)", "", "cannot be used in the resource requirement section"},
		{"a text for a number", "ncpus>many", "", "Expected number"},
		{"a text for a size", "mem>lots", "", "want a number"},
		{"the order of texts", "type>any", "", "== and != only"},
		{"a text by itself", "hname", "", "write hname=='value'"},
		{"a boolean compared", "hpux==1", "", "write hpux or !hpux"},
		{"arithmetic", "mem*2>5", "", "arithmetic"},
		{"nothing after &&", "hpux &&", "", "want a resource name, got the end"},
		{"one &", "hpux & rhel6", "", `position 6 is not understood`},
		{"two names", "hpux rhel6", "", "want && or || before rhel6"},
		{"not closed", "(hpux", "", `want ")"`},
		{"an open quote", "hname=='h", "", "is not closed"},
		{"no value", "mem>", "", "want a value after mem >"},
		{"negative", "mem>-1", "", "want a value"},
		{"an empty text", "hname==''", "", "1 to 255"},
		{"deep", strings.Repeat("(", 70) + "hpux" + strings.Repeat(")", 70), "", "nested more than 64"},
		{"very deep", strings.Repeat("!", 60000) + "hpux", "", "nested more than 64"},
		{"64 deep is fine", strings.Repeat("!", 64) + "hpux", strings.Repeat("!", 64) + "hpux", ""},
	} {
		got, err := ParseSelect(c.in, testSite)
		check(t, c.name, string(got), c.want, err, c.err)
		if _, err := got.Compile(); err != nil {
			t.Errorf("%s: the canonical text does not compile: %v", c.name, err)
		}
	}
}

func TestSelectMatch(t *testing.T) {
	n := &nodes.Node{ID: "gpu-01", Type: "X86_64", Slots: 8, UsedSlots: 2, Memory: 16 * testGiB, UsedMemory: 12 * testGiB,
		GPUs:        []nodes.GPU{{UUID: "a"}, {UUID: "b", Lost: true}},
		Consumables: nodes.MakeConsumables(map[string]int64{"license": 3}), UsedConsumables: nodes.MakeConsumables(map[string]int64{"license": 2})}
	for _, c := range []struct {
		name, in string
		want     bool
	}{
		{"no select takes any host", "", true},
		{"enough is free", "mem>=4G", true},
		{"what is used does not count", "mem>4G", false},
		{"but does for maxmem", "maxmem>15G", true},
		{"slots in all and free", "ncpus==8 && slots==6", true},
		{"a GPU that was lost", "ngpus==1 && ngpus_physical<2", true},
		{"a consumable, free", "license==1", true},
		{"a consumable by name", "license && defined(license)", true},
		{"one that the host has not", "verilog_lic>0 || defined(verilog_lic)", false},
		{"any and local stand for every type", "type==any && type==local && model==any", true},
		{"so nothing is not any", "type!=any", false},
		{"its type", "type==X86_64", true},
		{"its name", "hname!='gpu-01'", false},
		{"another name", "hname!='gpu-02'", true},
		{"what is not measured chooses no host", "ut<1", false},
		{"and its negation does", "!ut<1", true},
		{"either", "ncpus>100 || mem>1", true},
		{"both", "ncpus>100 && mem>1", false},
	} {
		s, err := ParseSelect(c.in, testSite)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := s.Match(NodeFacts(n))
		check(t, c.name, got, c.want, err, "")
	}
	if _, err := Select("mem >").Match(NodeFacts(n)); err == nil {
		t.Error("a text that ParseSelect did not make is an error")
	}
}

func FuzzParseSelect(f *testing.F) {
	for _, s := range []string{"mem>4096 && type==any", "!(rhel6||rhel7)&&!mem>5", "defined(license)", "hname!=\"it's\"", "ut<.5", "((("} {
		f.Add(s)
	}
	n := &nodes.Node{ID: "n", Slots: 4, Memory: testGiB}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseSelect(s, testSite)
		if err != nil {
			return
		}
		again, err := ParseSelect(string(got), testSite)
		if err != nil || again != got {
			t.Fatalf("%q gives %q, which reads back as %q (%v)", s, got, again, err)
		}
		if _, err := got.Match(NodeFacts(n)); err != nil {
			t.Fatalf("%q gives %q: %v", s, got, err)
		}
	})
}
