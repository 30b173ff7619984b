package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairslice/etc"
)

// The dashboard and the alerts in etc/ are held against what is really exported: a metric that is renamed breaks this test, and no
// dashboard in silence.

// query is one expression of a file, and the texts in which its labels are named.
type query struct {
	where string
	expr  string
	texts []string
}

var legendLabel = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

// problem is what is wrong with q, nil when nothing is.
func (c catalogue) problem(q query) error {
	labels, err := c.check(q.expr)
	if err != nil {
		return err
	}
	for _, text := range q.texts {
		for _, m := range legendLabel.FindAllStringSubmatch(text, -1) {
			name := strings.TrimPrefix(strings.TrimSpace(m[1]), "$labels.")
			if name != "$value" && !slices.Contains(labels, name) {
				return fmt.Errorf("no metric in it has the label %q of %q", name, text)
			}
		}
	}
	return nil
}

func TestDashboardShowsWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("../../etc/grafana/fairslice-slices.json")
	if err != nil {
		t.Fatal(err)
	}
	queries, ids, err := dashboard(text)
	if err != nil {
		t.Fatal(err)
	}
	c := everything(t)
	used := map[string]bool{}
	for _, q := range queries {
		if err := c.problem(q); err != nil {
			t.Errorf("%s: %v\n\t%s", q.where, err, q.expr)
		}
		for name := range c {
			used[name] = used[name] || regexp.MustCompile(`\b`+name+`\b`).MatchString(q.expr)
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("two panels have one number: %v", ids)
	}
	for name := range c { // and the other way: what is measured is looked at
		if (strings.HasPrefix(name, "fgpu_slice_") || strings.HasPrefix(name, "fgpu_gpu_")) && !used[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// dashboard finds the queries of Grafana's document.
func dashboard(text []byte) (queries []query, ids []int, err error) {
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name, Type string
				Query      json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, nil, err
	}
	for _, p := range d.Panels {
		ids = append(ids, p.ID)
		if p.Type != "row" && len(p.Targets) == 0 {
			return nil, nil, fmt.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, query{"panel " + p.Title, target.Expr, []string{target.LegendFormat}})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		if !slices.Contains(variables, "$"+v.Name) {
			return nil, nil, fmt.Errorf("variable %s is not one that the check knows", v.Name)
		}
		queries = append(queries, query{"variable " + v.Name, q.Query, nil})
	}
	return queries, ids, nil
}

func TestAlertsAskForWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("../../etc/prometheus/fairslice.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := alertRules(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(alerts) < 10 {
		t.Errorf("%d alerts were read", len(alerts))
	}
	c := everything(t)
	for _, q := range alerts {
		if err := c.problem(q); err != nil {
			t.Errorf("%s: %v\n\t%s", q.where, err, q.expr)
		}
	}
}

// alertRules reads a rules file of the plain form that ours has: one key on each line. What else YAML can do is an error here.
func alertRules(text string) ([]query, error) {
	var out []query
	line := regexp.MustCompile(`^( *)(- )?([a-z_]+):(?: (.*))?$`)
	scan := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scan.Scan(); n++ {
		l := scan.Text()
		if strings.HasPrefix(strings.TrimSpace(l), "#") || strings.TrimSpace(l) == "" {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			return nil, fmt.Errorf("line %d: want key: value, not %q", n, l)
		}
		value := m[4]
		if quoted, ok := strings.CutPrefix(value, `"`); ok {
			value = strings.TrimSuffix(quoted, `"`)
		} else if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") || strings.HasPrefix(value, "&") ||
			strings.Contains(value, ": ") || strings.Contains(value, " #") {
			return nil, fmt.Errorf("line %d: a value that has to be quoted, or stands on more than one line: %q", n, value)
		}
		if m[3] != "alert" && len(out) == 0 && m[3] != "groups" && m[3] != "name" && m[3] != "rules" {
			return nil, fmt.Errorf("line %d: %s before the first alert", n, m[3])
		}
		last := len(out) - 1
		switch m[3] {
		case "alert":
			if slices.ContainsFunc(out, func(q query) bool { return q.where == value }) {
				return nil, fmt.Errorf("line %d: a second alert %s", n, value)
			}
			out = append(out, query{where: value})
		case "expr":
			out[last].expr = value
		case "summary", "description":
			out[last].texts = append(out[last].texts, value)
		case "severity":
			if !slices.Contains([]string{"info", "warning", "critical"}, value) {
				return nil, fmt.Errorf("line %d: severity %q", n, value)
			}
		case "groups", "name", "rules", "for", "labels", "annotations":
		default:
			return nil, fmt.Errorf("line %d: unknown key %q", n, m[3])
		}
	}
	for _, q := range out {
		if q.expr == "" || len(q.texts) < 2 {
			return nil, fmt.Errorf("alert %s lacks an expression, a summary or a description", q.where)
		}
	}
	return out, scan.Err()
}

func TestAlertFilesThatCannotWorkAreFound(t *testing.T) {
	c := everything(t)
	rule := func(expr, summary string) string {
		return "groups:\n  - name: x\n    rules:\n      - alert: A\n        expr: " + expr + "\n        labels:\n          severity: info\n" +
			"        annotations:\n          summary: " + summary + "\n          description: d\n"
	}
	for _, bad := range []string{
		rule("fgpu_gone > 0", "s"),
		rule("fgpu_slice_info > 0", "of {{ $labels.owner }}"),
		rule("|", "s"),
		rule(`up{job="a"} == 0`, "a: b"),
		rule("", "s"),
		strings.Replace(rule("up == 0", "s"), "severity: info", "severity: loud", 1),
		strings.Replace(rule("up == 0", "s"), "        labels:\n", "        labels:\n          - odd\n", 1),
		strings.Replace(rule("up == 0", "s"), "          description: d\n", "", 1),
		strings.Replace(rule("up == 0", "s"), "alert: A", "record: a", 1),
		rule("up == 0", "s") + strings.SplitAfterN(rule("up == 0", "s"), "rules:\n", 2)[1],
	} {
		alerts, err := alertRules(bad)
		for _, q := range alerts {
			if err == nil {
				err = c.problem(q)
			}
		}
		if err == nil {
			t.Errorf("nothing was found wrong with\n%s", bad)
		}
	}
	if alerts, err := alertRules(rule("up == 0", "on {{ $labels.instance }}")); err != nil || len(alerts) != 1 || c.problem(alerts[0]) != nil {
		t.Errorf("a good one: %v %v", alerts, err)
	}
}

// The example of what to scrape has the ports that are the default, and lets a batch job's number keep its label.
func TestScrapeExample(t *testing.T) {
	text, err := os.ReadFile("../../etc/prometheus/fairslice.scrape.yml")
	if err != nil {
		t.Fatal(err)
	}
	d := etc.Default()
	batchd, noded, found := strings.Cut(string(text), "job_name: fairslice-noded")
	port := func(address string) string { return address[strings.LastIndex(address, ":"):] + `"` }
	if !found || !strings.Contains(batchd, "job_name: fairslice-batchd") || !strings.Contains(batchd, port(d.Metrics)) || !strings.Contains(noded, port(d.Node.Metrics)) {
		t.Errorf("the jobs or ports are not those of the configuration:\n%s", text)
	}
	if !strings.Contains(noded, "\n    honor_labels: true\n") {
		t.Error("noded's label job would be renamed, and the queries find none")
	}
}
