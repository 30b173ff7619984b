package queue

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseResReq(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []string
		want string // JSON of the result
		err  string
	}{
		{"nothing", nil, `{}`, ""},
		{"an empty option", []string{""}, `{}`, ""},
		{"wr's", []string{"select[mem>4096] rusage[mem=4096] span[hosts=1]"}, `{"select":"mem > 4G","memory":4294967296,"one_host":true}`, ""},
		{"text without a section is select", []string{"swp > 15 && hpux order[ut]"}, `{"select":"swp > 15M && hpux","order":"ut"}`, ""},
		{"bare text after a section", []string{"order[-slots: mem]rhel6||rhel7"}, `{"select":"rhel6 || rhel7","order":"-slots:mem"}`, ""},
		{"quotes that a script passed on", []string{`"select[hname!='h]x']"`}, `{"select":"hname != 'h]x'"}`, ""},
		{"several: select by &&, rusage joined, the last span", []string{"select[rhel6||rhel7] span[hosts=1]", "select[mem>1G] rusage[mem=1G]", "rusage[license=2] span[ptile=4]"},
			`{"select":"(rhel6 || rhel7) \u0026\u0026 mem \u003e 1G","memory":1073741824,"consumables":{"license":2},"per_host":4}`, ""},
		{"the last of the same resource", []string{"rusage[mem=1G]", "rusage[mem=2G]"}, `{"memory":2147483648}`, ""},
		{"units", []string{"rusage[mem=512MB:swp=1GB:tmp=1TB]"}, `{"memory":536870912}`, ""},
		{"groups with durations", []string{"rusage[mem=20:swp=50:duration=1h, license=1:duration=2]"}, `{"memory":20971520,"consumables":{"license":1}}`, ""},
		{"phases take the largest", []string{"rusage[mem=(50 10):duration=(10 5s):decay=(0)]"}, `{"memory":52428800}`, ""},
		{"a scope", []string{"rusage[mem=10/host:duration=10:decay=0]"}, `{"memory":10485760,"memory_scope":"host"}`, ""},
		{"per task", []string{"rusage[mem=4G/task]"}, `{"memory":4294967296,"memory_scope":"task"}`, ""},
		{"a fraction of a GPU", []string{"rusage[fgpu=0.5]"}, `{"fgpu":50}`, ""},
		{"whole GPUs", []string{"rusage[ngpus_physical=2]"}, `{"whole_gpus":2}`, ""},
		{"GPUs of a size and model", []string{"rusage[ngpus_physical=2:gmem=1G:gmodel=A100]"}, `{"whole_gpus":2,"gpu_memory":1073741824,"gpu_model":"A100"}`, ""},
		{"nothing of a GPU", []string{"rusage[ngpus_physical=0]"}, `{}`, ""},
		{"the queue's span is not wanted", []string{"span[hosts=-1]"}, `{}`, ""},
		{"ptile of the host", []string{"span[ptile='!']"}, `{}`, ""},
		{"ptile of host types", []string{"span[ptile='!',HP:8,PC8:4]"}, `{}`, ""},
		{"blocks and stripes", []string{"span[block=4]", "span[stripe]"}, `{}`, ""},
		{"a block", []string{"span[block=4]"}, `{"per_host":4}`, ""},
		{"same, cu", []string{"same[type:model] cu[type=enclosure:maxcus=2:pref=minavail:excl]"}, `{}`, ""},
		{"cores", []string{"affinity[core(4)]"}, `{"cores":4}`, ""},
		{"cores with all that IBM has", []string{"affinity[core(2,same=socket,exclusive=(core,injob))*2:cpubind=core:membind=localonly:distribute=pack]"}, `{"cores":4}`, ""},
		{"one core", []string{"affinity[core]"}, `{"cores":1}`, ""},

		{"a section twice", []string{"rusage[mem=1] rusage[mem=2]"}, "", "duplicate section"},
		{"bare text and select", []string{"rhel6 select[rhel7]"}, "", "duplicate section"},
		{"an unknown section", []string{"usage[mem=1]"}, "", "no section usage[..]"},
		{"an unknown resource", []string{"rusage[memory=1]"}, "", "Error in rusage section"},
		{"a value that is none", []string{"rusage[mem=lots]"}, "", "Expected number, string"},
		{"no value", []string{"rusage[mem]"}, "", "Error in rusage section: want name=value"},
		{"an empty section", []string{"rusage[]"}, "", "Error in rusage section"},
		{"twice in one section", []string{"rusage[mem=1,mem=2]"}, "", "is given twice"},
		{"either or", []string{"rusage[mem=20 || mem=10]"}, "", "Error in rusage section: alternatives"},
		{"a scope that is none", []string{"rusage[mem=1/node]"}, "", "want /host, /task or /job"},
		{"a consumable per task", []string{"rusage[license=1/task]"}, "", "is counted per host"},
		{"a duration that is none", []string{"rusage[mem=1:duration=long]"}, "", "want a duration"},
		{"decay 2", []string{"rusage[mem=1:decay=2]"}, "", "want decay=0"},
		{"a fraction and whole ones", []string{"rusage[fgpu=0.5]", "rusage[ngpus_physical=1]"}, "", "give one of them"},
		{"a fraction and a size", []string{"rusage[fgpu=0.5:gmem=1G]"}, "", "give one of them"},
		{"three decimals", []string{"rusage[fgpu=0.125]"}, "", "two decimals"},
		{"an exclusive GPU of a size", []string{"rusage[ngpus_excl_p=1:gmem=1G]"}, "", "j_exclusive=yes"},
		{"a model of nothing", []string{"rusage[gmodel=A100]"}, "", "gmodel needs"},
		{"not closed", []string{"rusage[mem=1"}, "", "is not closed"},
		{"closed twice", []string{"rusage[mem=1]]"}, "", "closes nothing"},
		{"a bracket alone", []string{"[mem=1]"}, "", "no section name"},
		{"two hosts", []string{"span[hosts=2]"}, "", "want hosts=1"},
		{"one host of four slots", []string{"span[hosts=1,ptile=4]"}, "", "exclude each other"},
		{"ptile of nothing", []string{"span[ptile=0]"}, "", "in span"},
		{"an empty span", []string{"span[]"}, "", "in span"},
		{"order of an unknown name", []string{"order[abc]"}, "", "cannot be used in the resource requirement section"},
		{"order of a text", []string{"order[type]"}, "", "has no order"},
		{"sockets", []string{"affinity[socket(1)]"}, "", "ask for core(n)"},
		{"no cores", []string{"affinity[core(0)]"}, "", "from 1 to"},
		{"an unknown binding", []string{"affinity[core(1):gpubind=1]"}, "", "in affinity"},
		{"alternatives", []string{"{select[rhel6]} || {select[rhel7]}"}, "", "not supported"},
		{"compound", []string{"1*{span[ptile=1]} + 4*{span[ptile=1]}"}, "", "not supported"},
		{"too long", []string{strings.Repeat("x", maxResReqLength+1)}, "", "longer than"},
	} {
		got, err := ParseResReq(c.in, testSite)
		text, _ := json.Marshal(got)
		want := strings.NewReplacer("&&", `\u0026\u0026`, " > ", ` \u003e `).Replace(c.want)
		check(t, c.name, string(text), want, err, c.err)
	}
}

func TestCheckResReq(t *testing.T) {
	for _, c := range []struct{ name, in, err string }{
		{"= is read as ==", "select[mem=1]", ""},
		{"a name that is none", "select[abc=abc]", "cannot be used in the resource requirement section"},
		{"compound, as wr's list has it", "1*{span[gtile=!] rusage[ngpus_physical=2:gmem=1G]} + 4*{span[ptile=1] rusage[ngpus_physical=1:gmem=10G]}", ""},
		{"alternatives with a delay", "{select[type==any] order[ut] same[model] rusage[mem=1]} || {select[type==any] order[ls] same[ostype] rusage[mem=5]}@4", ""},
		{"a name from the site", "select[defined(verilog_lic)] rusage[verilog_lic=1]", ""},
		{"compound in alternatives", "{1*{rusage[mem=1]} + 2*{rusage[mem=2]}} || {rusage[mem=3]}", ""},
		{"a mistake inside", "{rusage[mem=x]} || {rusage[mem=1]}", "Error in rusage section"},
		{"nothing after ||", "{rusage[mem=1]} ||", "want {..} || {..}"},
		{"nothing between", "{rusage[mem=1]} {rusage[mem=1]}", "want {..} || {..}"},
		{"not closed", "{rusage[mem=1]", "want {..} || {..}"},
		{"a number without *", "2{rusage[mem=1]}", "want {..} || {..}"},
		{"deep", strings.Repeat("{", 1000) + strings.Repeat("}", 1000), "want {..} || {..}"},
	} {
		err := CheckResReq(c.in, testSite)
		check(t, c.name, 0, 0, err, c.err)
	}
}

func FuzzParseResReq(f *testing.F) {
	for _, s := range []string{
		"select[mem>4096] rusage[mem=4096:license=1] span[hosts=1]", "swp > 15 && hpux order[ut]", "{a}||{b}",
		"affinity[core(2,same=socket)*2:cpubind=core]", "rusage[mem=(50 10):duration=(10)]", "cu[excl] same[type]", "span[ptile='!',HP:8]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_ = CheckResReq(s, testSite)
		r, err := ParseResReq([]string{s}, testSite)
		if err != nil {
			return
		}
		spec := &Spec{Command: "x", Resources: r}
		if errs := spec.Validate(); len(errs) > 0 {
			t.Fatalf("%q is read, but not valid: %v", s, errs)
		}
		twice, err := ParseResReq([]string{s, s}, testSite)
		if err != nil || twice.Memory != r.Memory || twice.PerHost != r.PerHost || twice.Order != r.Order || (twice.Select == "") != (r.Select == "") {
			t.Fatalf("%q twice is something else: %+v, %+v (%v)", s, r, twice, err)
		}
	})
}
