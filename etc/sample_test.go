package etc

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func readSample(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("fairslice.toml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestSampleStatesTheDefaults(t *testing.T) {
	got, err := Parse("fairslice.toml", []byte(readSample(t)))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the sample as it is\n got %+v\nwant %+v", got, want)
	}
	if empty, err := Parse("", nil); err != nil || !reflect.DeepEqual(empty, want) {
		t.Errorf("an empty file\n got %+v, %v\nwant %+v", empty, err, want)
	}
}

// An example that does not work is worse than none.
func TestSampleExamplesParse(t *testing.T) {
	all := regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(readSample(t), "$1")
	c, err := Parse("fairslice.toml", []byte(all))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Images) != 1 || len(c.Resources) != 1 || c.Queues[0].MaxRunLimit == 0 || c.GPU.Capacity("NVIDIA A100-SXM4-40GB") != 400 ||
		c.Scheduler.Weights == (Weights{}) {
		t.Errorf("the examples were not read: %+v", c)
	}
}

// TestSampleHasEveryKey holds that the sample has no other key either, and that each has its sentence: a comment line right above it.
func TestSampleHasEveryKey(t *testing.T) {
	written := map[string]bool{}
	section, before := "", ""
	assignment := regexp.MustCompile(`^#?([a-z_]+) = `)
	header := regexp.MustCompile(`^#?\[+([a-z.]+)\]+$`)
	for _, line := range strings.Split(readSample(t), "\n") {
		if m := header.FindStringSubmatch(line); m != nil {
			section = m[1] + "."
		} else if m := assignment.FindStringSubmatch(line); m != nil {
			key := section + m[1]
			if written[key] {
				t.Errorf("%s stands in the sample twice", key)
			}
			written[key] = true
			if !strings.HasPrefix(before, "# ") {
				t.Errorf("%s has no sentence above it", key)
			}
		}
		before = line
	}
	for _, key := range everyKey("", reflect.TypeFor[Config]()) {
		if !written[key] {
			t.Errorf("%s is missing from the sample", key)
		}
		delete(written, key)
	}
	for key := range written {
		t.Errorf("%s is in the sample, and is no key", key)
	}
}

// everyKey lists the keys of a struct, those in sections as section.key.
func everyKey(section string, typ reflect.Type) []string {
	var keys []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		key := f.Tag.Get("toml")
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			keys = append(keys, everyKey(section+key+".", inner)...)
		} else {
			keys = append(keys, section+key)
		}
	}
	return keys
}
