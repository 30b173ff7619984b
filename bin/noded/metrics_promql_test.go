package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A reader of PromQL that knows just enough to hold the queries in etc/ against what noded and batchd export: which words are
// metrics and which are labels. It is no parser of expressions: what it does not know is an error, never passed over.

// exported is what a metric has: its labels, and whether it counts up.
type exported struct {
	labels  []string
	counter bool
}

// catalogue is every series that a server scrapes from noded and batchd.
type catalogue map[string]exported

// scraped are the labels that the server itself adds to each series.
var scraped = []string{"job", "instance"}

func (c catalogue) add(families []*dto.MetricFamily) {
	for _, f := range families {
		var labels []string
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if !slices.Contains(labels, l.GetName()) {
					labels = append(labels, l.GetName())
				}
			}
		}
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			c[f.GetName()+"_bucket"] = exported{append(slices.Clone(labels), "le"), true}
			c[f.GetName()+"_sum"] = exported{labels, true}
			c[f.GetName()+"_count"] = exported{labels, true}
		case dto.MetricType_COUNTER:
			c[f.GetName()] = exported{labels, true}
		case dto.MetricType_GAUGE:
			c[f.GetName()] = exported{labels, false}
		}
	}
}

// everything is what is really exported: noded's by its collectors, batchd's by the page that its own test holds it to.
func everything(t *testing.T) catalogue {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(&metrics{"node1", twoJobs()}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	c := catalogue{"up": {}}
	c.add(families)
	page, err := os.Open("../batchd/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	batchd, err := parser.TextToMetricFamilies(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range batchd {
		c.add([]*dto.MetricFamily{f})
	}
	return c
}

var (
	aggregations = []string{"sum", "avg", "min", "max", "count", "topk"}
	functions    = []string{"rate", "increase", "absent", "histogram_quantile", "clamp_min", "label_replace", "changes", "max_over_time"}
	ofCounters   = []string{"rate", "increase"}
	lists        = []string{"by", "without", "on", "ignoring", "group_left", "group_right"} // a list of labels follows
	words        = []string{"and", "or", "unless", "bool", "offset"}
	variables    = []string{"$node", "$user", "$gpu"} // of the dashboard, inside of strings

	token    = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|\[(?:[0-9]+[smhd]|\$__rate_interval|\$__range)\]|[0-9]+(?:\.[0-9]+)?(?:[smhd]\b)?|=~|!~|==|!=|>=|<=|[-+*/%^(){},=<>])`)
	variable = regexp.MustCompile(`\$\w+`)
	label    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// tokens cuts an expression into its words and signs.
func tokens(expr string) ([]string, error) {
	var out []string
	rest := strings.TrimSpace(expr)
	for rest != "" {
		t := token.FindString(rest)
		if t == "" {
			return nil, fmt.Errorf("unknown sign at %q", rest)
		}
		out = append(out, t)
		rest = strings.TrimSpace(rest[len(t):])
	}
	return out, nil
}

// reader goes through the tokens of one expression.
type reader struct {
	c       catalogue
	list    []string
	i       int
	open    []string // brackets
	labels  []string // of all metrics seen
	metrics int
	asked   []string // in lists of labels: judged when all metrics have been seen
}

// check returns the labels that the metrics of expr have, or what is wrong with it.
func (c catalogue) check(expr string) (labels []string, err error) {
	list, err := tokens(expr)
	if err != nil {
		return nil, err
	}
	if len(list) > 0 && list[0] == "label_values" { // Grafana's: the values that a label of a metric has
		if len(list) != 6 || list[1] != "(" || list[3] != "," || list[5] != ")" {
			return nil, fmt.Errorf("want label_values(metric, label)")
		}
		if m, ok := c[list[2]]; !ok || !slices.Contains(m.labels, list[4]) {
			return nil, fmt.Errorf("no metric %s has the label %q", list[2], list[4])
		}
		return append(slices.Clone(scraped), list[4]), nil
	}
	r := reader{c: c, list: list, labels: slices.Clone(scraped)}
	for ; r.i < len(list); r.i++ {
		if err := r.next(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(r.open) > 0:
		return nil, fmt.Errorf("%s is not closed", r.open[len(r.open)-1])
	case r.metrics == 0:
		return nil, fmt.Errorf("no metric")
	}
	for _, l := range r.asked {
		if !slices.Contains(r.labels, l) {
			return nil, fmt.Errorf("no metric in it has the label %q", l)
		}
	}
	return r.labels, nil
}

// at is the token n after the present one, "" behind the end.
func (r *reader) at(n int) string {
	if r.i+n < len(r.list) {
		return r.list[r.i+n]
	}
	return ""
}

func (r *reader) next() error {
	switch t := r.at(0); {
	case t == "(" || t == "{":
		r.open = append(r.open, t)
	case t == ")" || t == "}":
		if want := map[string]string{")": "(", "}": "{"}[t]; len(r.open) == 0 || r.open[len(r.open)-1] != want {
			return fmt.Errorf("%s without %s", t, want)
		}
		r.open = r.open[:len(r.open)-1]
	case slices.Contains(lists, t):
		return r.labelList(t)
	case slices.Contains(aggregations, t):
		if after := r.at(1); after != "(" && after != "by" && after != "without" {
			return fmt.Errorf("nothing to aggregate after %s", t)
		}
	case slices.Contains(functions, t):
		if r.at(1) != "(" {
			return fmt.Errorf("no arguments after %s", t)
		}
		if m, ok := r.c[r.at(2)]; slices.Contains(ofCounters, t) && ok && !m.counter {
			return fmt.Errorf("%s of %s, which does not count up", t, r.at(2))
		}
	case slices.Contains(words, t):
	case label.MatchString(t):
		return r.metric(t)
	}
	return nil
}

// labelList is what follows by, on and the like.
func (r *reader) labelList(word string) error {
	if r.at(1) != "(" {
		if word == "group_left" || word == "group_right" {
			return nil
		}
		return fmt.Errorf("no list of labels after %s", word)
	}
	for r.i += 2; r.at(0) != ")"; r.i++ {
		switch {
		case r.at(0) == ",":
		case label.MatchString(r.at(0)):
			r.asked = append(r.asked, r.at(0))
		default:
			return fmt.Errorf("%q in a list of labels", r.at(0))
		}
	}
	return nil
}

// metric is a name, and what stands in braces behind it.
func (r *reader) metric(name string) error {
	m, ok := r.c[name]
	if !ok {
		return fmt.Errorf("neither noded nor batchd exports %s, and no function is called so", name)
	}
	r.metrics++
	r.labels = append(r.labels, m.labels...)
	if r.at(1) != "{" {
		return nil
	}
	for r.i += 2; r.at(0) != "}"; r.i += 3 {
		if r.at(0) == "," {
			r.i++
		}
		if l := r.at(0); !slices.Contains(m.labels, l) && !slices.Contains(scraped, l) {
			return fmt.Errorf("%s has no label %q", name, l)
		}
		if !slices.Contains([]string{"=", "!=", "=~", "!~"}, r.at(1)) || !strings.HasPrefix(r.at(2), `"`) {
			return fmt.Errorf("want label=\"value\" at %s", r.at(0))
		}
		for _, v := range variable.FindAllString(r.at(2), -1) {
			if !slices.Contains(variables, v) {
				return fmt.Errorf("unknown variable %s", v)
			}
		}
	}
	return nil
}

// The check is worth what it finds.
func TestQueriesThatCannotWorkAreFound(t *testing.T) {
	c := everything(t)
	for _, good := range []string{
		`up{job="fairslice-batchd"} == 0`,
		`sum by (user) (fgpu_slice_memory_used_bytes * on (session, gpu_uuid) group_left (user) fgpu_slice_info{user=~"$user",node="n"}) > 1.5`,
		`histogram_quantile(0.99, sum by (le, queue) (rate(fairslice_wait_seconds_bucket[$__rate_interval])))`,
		`label_values(fgpu_slice_info, user)`,
		`increase(fgpu_watchdog_actions_total{action="terminate"}[5m]) > 0 or absent(fairslice_nodes)`,
		`process_resident_memory_bytes`,
	} {
		if _, err := c.check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		`fgpu_slice_memory_bytes`:                                                      "exports fgpu_slice_memory_bytes",
		`sum(fgpu_slice_info{owner="x"})`:                                              `no label "owner"`,
		`fgpu_slice_info{user="x",owner="x"}`:                                          `no label "owner"`,
		`sum by (colour) (fgpu_slice_info)`:                                            `the label "colour"`,
		`fgpu_slice_memory_used_bytes * on (session) group_left (who) fgpu_slice_info`: `the label "who"`,
		`rate(fgpu_slice_memory_used_bytes[5m])`:                                       "does not count up",
		`median(fgpu_slice_memory_used_bytes)`:                                         "exports median",
		`sum(fgpu_slice_info`:                                                          "( is not closed",
		`fgpu_slice_info)`:                                                             ") without (",
		`fgpu_slice_info{user="$nobody"}`:                                              "unknown variable $nobody",
		`fgpu_slice_info{user}`:                                                        "want label=",
		`fgpu_slice_info{user=`:                                                        "want label=",
		`fgpu_slice_launches_total[5 minutes]`:                                         "unknown sign",
		`rate(fgpu_slice_launches_total[$interval])`:                                   "unknown sign",
		`1 + 1`:                                "no metric",
		``:                                     "no metric",
		`fgpu_slice_info; drop`:                "unknown sign",
		`sum by user (fgpu_slice_info)`:        "no list of labels",
		`fgpu_slice_info and on (session`:      "in a list of labels",
		`label_values(fgpu_slice_info, owner)`: `the label "owner"`,
		`label_values(fgpu_slice_info)`:        "want label_values",
	} {
		if _, err := c.check(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
}

func FuzzQueries(f *testing.F) {
	f.Add(`sum by (user) (fgpu_slice_info{user="x"})`)
	f.Add(`fgpu_slice_info{user=`)
	f.Add(`label_values(`)
	f.Add(`on (`)
	c := catalogue{"fgpu_slice_info": {labels: []string{"user"}}}
	f.Fuzz(func(t *testing.T, expr string) {
		if labels, err := c.check(expr); err == nil && len(labels) == 0 {
			t.Errorf("%q: %q", expr, labels)
		}
	})
}
