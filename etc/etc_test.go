package etc

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestValuesAreRead(t *testing.T) {
	c := mustParse(t, `
cluster = 'gpu-1'
clean_period = "1h30m"
time_zone = "UTC"
unit_for_limits = "MB"
socket = "/tmp/s"
max_job_array_size = 1_000
[gpu]
fgpu_per_gpu = "0.25"
per_model.A100 = 4
per_model."A100-SXM4-80GB" = 7.5
[container]
default = "required"
binds = [ # a comment inside
  "/data",
  "/a:/b:ro",
]
[[queue]]
name = "long"
max_run_limit = 90
default_run_limit = "1:29"
default_memory = "1.5GiB"
max_memory = "4g"
[[queue]]
name = "short"
container = "never"
max_run_limit = "90s"
[[image]]
name = "torch"
file = "/i/torch.sif"
[[image]]
name = "torch:2"
file = "/i/torch2.sif"
[[resource]]
name = "disk"
per_node = 2
nodes = { n1 = 0, n2 = 5 }
[scheduler]
protected = 5
gpu_weight = 1_000.5
memory_weight = 0.25
half_life = "24h"
predict = true
weights = { fairshare = 2, age = 0.5e1, size = 0.0 }
[node]
slots = 0x10
memory = "2T"
`)
	for _, row := range []struct {
		what      string
		got, want any
	}{
		{"a text", c.Cluster, "gpu-1"},
		{"a duration", c.CleanPeriod, 90 * time.Minute},
		{"the zone", c.Location(), time.UTC},
		{"the unit", c.MemoryUnit(), int64(1 << 20)},
		{"underscores in numbers", c.MaxJobArraySize, 1000},
		{"fGPU as a text", c.GPU.PerGPU, Amount(25)},
		{"a model by a part of its name", c.GPU.Capacity("NVIDIA a100-PCIE-40GB"), Amount(400)},
		{"the longest part decides", c.GPU.Capacity("NVIDIA A100-SXM4-80GB"), Amount(750)},
		{"another model", c.GPU.Capacity("Tesla T4"), Amount(25)},
		{"a list over several lines", c.Container.Binds, []string{"/data", "/a:/b:ro"}},
		{"minutes as a number", c.Queues[0].MaxRunLimit, 90 * time.Minute},
		{"hours and minutes", c.Queues[0].DefaultRunLimit, 89 * time.Minute},
		{"a size with a fraction", c.Queues[0].DefaultMemory, int64(3 << 29)},
		{"a short unit", c.Queues[0].MaxMemory, int64(4 << 30)},
		{"seconds", c.Queues[1].MaxRunLimit, 90 * time.Second},
		{"no default run limit", c.Queues[1].DefaultRunLimit, time.Duration(0)},
		{"the container word from above", c.Queues[0].Container, "required"},
		{"the queue's own container word", c.Queues[1].Container, "never"},
		{"a queue's priority left out", c.Queues[1].Priority, 30},
		{"the first queue is the default", c.DefaultQueue, "long"},
		{"images by name and tag", c.ImageFiles(), map[string]string{"torch:latest": "/i/torch.sif", "torch:2": "/i/torch2.sif"}},
		{"a node that is named", c.Supply("n2"), map[string]int64{"disk": 5}},
		{"a node named with none", c.Supply("n1"), map[string]int64{}},
		{"any other node", c.Supply("n3"), map[string]int64{"disk": 2}},
		{"a hexadecimal number", c.Node.Slots, 16},
		{"terabytes", c.Node.Memory, int64(2 << 40)},
		{"protected jobs without a policy", c.Scheduler.Policy, "protected"},
		{"how many", c.Scheduler.Protected, 5},
		{"a weight with a fraction", c.Scheduler.GPUWeight, GPUWeight(1000.5)},
		{"a weight of memory", c.Scheduler.MemoryWeight, 0.25},
		{"weights", c.Scheduler.Weights, Weights{FairShare: 2, Age: 5}},
		{"the order that weights are of", c.Scheduler.Order, "default"},
		{"a half-life", c.Scheduler.HalfLife, 24 * time.Hour},
		{"noded follows the socket", c.Node.Batchd, "unix:///tmp/s"},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s: got %v, want %v", row.what, row.got, row.want)
		}
	}
}

func TestEveryMistakeIsToldWithItsPlace(t *testing.T) {
	_, err := Parse("fairslice.toml", []byte(`cluster = "a b"
clustr = "x"
default_queue = "none"
heartbeat = "20s"
node_timeout = 30

[gpu]
fgpu_per_gpu = 0.125
metrics = "x"

[[queue]]
name = "long"
max_run_limit = "1:00"
default_run_limit = "2:00"
max_memory = "4 parsecs"
  max_slots = 0

[[queue]]
name = "long"
container = "maybe"
image = "nowhere"
hosts = ["a", 5,
  "a"]
`))
	want := `fairslice.toml:1:1: cluster: want 1 to 128 letters, digits and . _ - @ +, first a letter, a digit or _; got "a b"
fairslice.toml:2:1: clustr: unknown key; did you mean cluster?; allowed here: cluster, log_level, state_dir, socket, listen, tls_names, metrics, database_url, postgres_bin, postgres_user, admins, default_queue, default_project, time_zone, clean_period, max_job_array_size, unit_for_limits, heartbeat, node_timeout, terminate_interval, job_report, gpu, container, queue, image, images, session, resource, scheduler, accounting, web, app, node
fairslice.toml:3:1: default_queue: no [[queue]] is named "none"; there are: long, long
fairslice.toml:5:1: node_timeout: want a duration with its units, such as "90s" or "1h30m"; got 30
fairslice.toml:8:1: gpu.fgpu_per_gpu: want a number of fGPU above 0 with at most two decimals, such as 2 or 0.25; got "0.125"
fairslice.toml:9:1: gpu.metrics: unknown key; it belongs to the top of the file, before the first [section]; allowed here: fgpu_per_gpu, per_model
fairslice.toml:14:1: queue "long": default_run_limit: must not be more than max_run_limit (line 13)
fairslice.toml:15:1: queue "long": max_memory: want a size with its unit, such as "512MiB" or "4GiB" (K M G T P E, always base 1024); got "4 parsecs"
fairslice.toml:16:3: queue "long": max_slots: 0 is no limit: leave the key out for none
fairslice.toml:19:1: queue "long": name: there is a queue of this name already (line 12)
fairslice.toml:20:1: queue "long": container: want one of required, allowed, never; got "maybe"
fairslice.toml:21:1: queue "long": image: no [[image]] is named "nowhere:latest"; name one, or give the absolute path of a SIF file
fairslice.toml:22:15: queue "long": hosts 2: want a text in quotes; got 5
fairslice.toml:23:3: queue "long": hosts 3: "a" is in the list twice`
	if got := err.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var ms Mistakes
	if !errors.As(err, &ms) || len(ms) != 14 || ms[0].Line != 1 {
		t.Errorf("not Mistakes with lines: %#v", err)
	}
}

func TestMistakes(t *testing.T) {
	for _, row := range []struct{ what, text, want string }{
		{"a mistake of form, and one before it", "heartbeat = 1\nx = = 2\ndefault_queue = \"later\"\n", "x:1:1: heartbeat: want a duration|x:2:5: "},
		{"what comes after a mistake of form is not judged", "default_queue = \"late\"\n[gpu\n[[queue]]\nname = \"late\"", "x:2:"},
		{"a key twice, and the others still", "cluster = \"a\"\ncluster = \"b\"\nunit_for_limits = \"x\"", "x:2:1: key cluster is already defined|x:3:1: unit_for_limits: want one of KB, MB"},
		{"a section that is a list", "[[gpu]]\nfgpu_per_gpu = 1", "x:1:3: gpu: want a section, written [gpu]; got a list of sections"},
		{"a list that is a section", "[queue]\nname = \"a\"", "x:1:2: queue: want sections, each written [[queue]]; got a table"},
		{"a text where a number is wanted", "max_job_array_size = \"5\"", `x:1:1: max_job_array_size: want a whole number; got "5"`},
		{"a negative number", "max_job_array_size = -5", "x:1:1: max_job_array_size: must not be negative; got -5"},
		{"a number out of range", "max_job_array_size = 1000001", "x:1:1: max_job_array_size: want 1 to 1000000"},
		{"a negative duration", "clean_period = \"-1h\"", "x:1:1: clean_period: want 1s to"},
		{"a date", "clean_period = 2024-01-01", "x:1:1: clean_period: want a duration with its units, such as \"90s\" or \"1h30m\"; got a date or time"},
		{"a run limit of 0", "[[queue]]\nname=\"a\"\nmax_run_limit = \"0:00\"", `x:3:1: queue "a": max_run_limit: 0 is no limit`},
		{"a run limit that is none", "[[queue]]\nname=\"a\"\nmax_run_limit = \"unlimited\"", `x:3:1: queue "a": max_run_limit: want [hour:]minute`},
		{"a negative run limit", "[[queue]]\nname=\"a\"\nmax_run_limit = \"-5m\"", `x:3:1: queue "a": max_run_limit: want [hour:]minute`},
		{"a run limit beyond counting", "[[queue]]\nname=\"a\"\nmax_run_limit = \"99999999999999999999:00\"", `x:3:1: queue "a": max_run_limit: "99999999999999999999:00" is more than one year`},
		{"a size without a unit", "[[queue]]\nname=\"a\"\nmax_memory = 4096", `x:3:1: queue "a": max_memory: want a size with its unit`},
		{"a size of 0", "[[queue]]\nname=\"a\"\nmax_memory = \"0G\"", `x:3:1: queue "a": max_memory: 0 is no limit`},
		{"a size too large", "[[queue]]\nname=\"a\"\nmax_memory = \"2E\"", `x:3:1: queue "a": max_memory: "2E" is more than 1 EiB`},
		{"default memory above the most", "[[queue]]\nname=\"a\"\nmax_memory = \"1G\"\ndefault_memory=\"2G\"", `x:4:1: queue "a": default_memory: must not be more than max_memory (line 3)`},
		{"a queue without a name", "[[queue]]\npriority = 3", "x:1:3: queue 1: name: want 1 to 128 letters"},
		{"an image where none may run", "[[queue]]\nname=\"a\"\ncontainer=\"never\"\nimage=\"/a.sif\"", `x:4:1: queue "a": image: the queue's container is "never"`},
		{"no fGPU at all", "[gpu]\nfgpu_per_gpu = 0", "x:2:1: gpu.fgpu_per_gpu: want a number of fGPU above 0"},
		{"fGPU that is no decimal", "[gpu]\nper_model = { A = 1e2, B = inf, C = 1 }", "x:2:15: gpu.per_model.A: want a number of fGPU|x:2:24: gpu.per_model.B: want a number"},
		{"a model twice", "[gpu]\nper_model = { A = 1, a = 1 }", `x:2:22: gpu.per_model.a: is the same model as "A"`},
		{"an image twice", "[[image]]\nname=\"a\"\nfile=\"/a\"\n[[image]]\nname=\"a:latest\"\nfile=\"/b\"", `x:5:1: image "a:latest": name: image "a:latest" is there already (line 2)`},
		{"a file twice", "[[image]]\nname=\"a\"\nfile=\"/a\"\n[[image]]\nname=\"b\"\nfile=\"/x/../a\"", `x:6:1: image "b": file: is the file of image "a:latest" already (line 3)`},
		{"a relative file", "[[image]]\nname=\"a\"\nfile=\"a.sif\"", `x:3:1: image "a": file: want an absolute path`},
		{"a resource with a meaning", "[[resource]]\nname=\"mem\"", `x:2:1: resource "mem": name: "mem" already has a meaning`},
		{"a resource twice", "[[resource]]\nname=\"a\"\n[[resource]]\nname=\"a\"", `x:4:1: resource "a": name: there is a resource of this name already (line 2)`},
		{"a negative quantity", "[[resource]]\nname=\"a\"\nnodes.n1 = -1", `x:3:7: resource "a": nodes.n1: must not be negative`},
		{"a bind with a relative path", "[container]\nbinds = [\"/a\", \"b:/c\"]", `x:2:16: container.binds 2: want SRC[:DST[:ro]]`},
		{"a bind with too many parts", "[container]\nbinds = [\"/a:/b:ro:x\"]", `x:2:10: container.binds 1: want SRC[:DST[:ro]]`},
		{"no zone", "time_zone = \"Nowhere/City\"", "x:1:1: time_zone: want a time zone"},
		{"an address without a port", "listen = \"host\"", "x:1:1: listen: want host:port"},
		{"a port too high", "metrics = \":70000\"", "x:1:1: metrics: want host:port"},
		{"both daemons at one address", "metrics = \":9121\"\n[node]\nmetrics = \":9121\"", "x:3:1: node.metrics: is batchd's own address"},
		{"one late heartbeat", "heartbeat = \"20s\"", "x: node_timeout: must be at least twice heartbeat"},
		{"plain http", "[node]\nbatchd = \"http://b:1\"", `x:2:1: node.batchd: want "unix:///path/of/socket" or "https://host:port"; got "http://b:1"`},
		{"batchd emptied", "[node]\nbatchd = \"\"", `x:2:1: node.batchd: want`},
		{"the network without a token", "[node]\nbatchd = \"https://b:1\"", "x:1:2: node.token_file: is needed"},
		{"a cgroup out of bounds", "[node]\ncgroup_parent = \"../x\"", "x:2:1: node.cgroup_parent: want a path below"},
		{"a password stays out of the message", "database_url = \"mysql://u:secret@h/d\"", "x:1:1: database_url: want an address"},
		{"signatures by nobody", "[images]\nrequire_signature = true", "x:2:1: images.require_signature: needs trusted_keys"},
		{"signatures, and sessions that nobody vouches for", "[images]\ntrusted_keys = \"/keys\"\nrequire_signature = true\napprove = \"auto\"", "x:3:1: images.require_signature: a session that becomes an image is not signed"},
		{"keys of a relative directory", "[images]\ntrusted_keys = \"keys\"", "x:2:1: images.trusted_keys: want an absolute path"},
		{"an odd key", "\"a\\nb\" = 1", `x:1:1: "a\nb": unknown key`},
		{"Windows line ends and a byte order mark", "\xef\xbb\xbf# x\r\nunit_for_limits = \"x\"\r\n", "x:2:1: unit_for_limits: want one of"},
	} {
		_, err := Parse("x", []byte(row.text))
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
			if !strings.HasPrefix(got[i], want[i]) || strings.Contains(got[i], "secret") {
				t.Errorf("%s: got\n%s\nwant\n%s…", row.what, got[i], want[i])
			}
		}
	}
}

func TestLoadReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "noded.toml")
	if _, err := Load(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("[node]\nnam = 'x'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.HasPrefix(err.Error(), "noded.toml:2:1: node.nam: unknown key; did you mean name?") {
		t.Errorf("a file with a mistake: %v", err)
	}
}

func TestAConfigurationMadeByAProgramIsJudgedToo(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.DefaultQueue, c.Queues[0].MaxSlots, c.GPU.PerModel = "x", -1, map[string]Amount{"A": 0}
	err := c.Validate()
	var ms Mistakes
	if !errors.As(err, &ms) || len(ms) != 3 {
		t.Fatalf("got %v, want three mistakes", err)
	}
	if got := ms[1].String(); !strings.HasPrefix(got, "queue 1: max_slots: must not be negative") {
		t.Errorf("got %q", got)
	}
	if again := Default(); again.GPU.PerModel != nil || again.Queues[0].MaxSlots != 0 {
		t.Error("Default gave out its own memory")
	}
}

// FuzzParse holds that whatever the file, Parse answers with a valid Config or with Mistakes that lie in the file, the
// same each time.
func FuzzParse(f *testing.F) {
	sample, err := os.ReadFile("fairslice.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add([]byte("[[queue]]\nname='a'\n[queue.x]\ny=1\n[[image]]\nname=[[[1]],{a={b=1}}]"))
	f.Add([]byte("a.b.c=1\na.b=2\n[a]\nb=[\n#x\n'y',#z\n]\nqueue=[{name='q'}, 3]"))
	f.Add([]byte("\xef\xbb\xbf\r\nmax_run_limit=1\n[gpu]\nper_model={'A.B'=1.0,\"\\u0000\"=2}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := slices.Clone(data)
		c, err := Parse("x", data)
		if !slices.Equal(before, data) {
			t.Fatal("Parse changed its input")
		}
		again, err2 := Parse("x", data)
		if !reflect.DeepEqual(c, again) || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("two answers:\n%+v %v\n%+v %v", c, err, again, err2)
		}
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("Parse accepts what Validate refuses: %v", err)
			}
			for model := range maps.Keys(c.GPU.PerModel) {
				if c.GPU.Capacity(model) <= 0 {
					t.Fatalf("model %q is worth nothing", model)
				}
			}
			return
		}
		var ms Mistakes
		if c != nil || !errors.As(err, &ms) || len(ms) == 0 {
			t.Fatalf("want no Config and Mistakes, got %v and %v", c, err)
		}
		lines := strings.Split(string(data), "\n")
		for _, m := range ms {
			if m.Line < 0 || m.Line > len(lines) || m.Line > 0 && (m.Column < 1 || m.Column > len(lines[m.Line-1])+2) {
				t.Fatalf("%s lies outside of the file", m)
			}
			if strings.Contains(m.Msg, "\n") || strings.Contains(m.Key, "\n") {
				t.Fatalf("a message of several lines: %q", m)
			}
		}
	})
}
