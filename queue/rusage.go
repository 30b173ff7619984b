package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fairslice/nodes"
)

const (
	maxGPUs     = 10_000  // of one host
	maxQuantity = 1 << 40 // of a consumable
)

// readRusage reads "mem=4G:duration=1h, license=1".
func (p *resReqParser) readRusage(body string) error {
	if strings.Contains(body, "||") {
		return errors.New("Error in rusage section: alternatives with || are not supported by this cluster")
	}
	items, err := splitOutside(body, ",:")
	if err != nil {
		return fmt.Errorf("Error in rusage section: %w", err)
	}
	seen := map[string]bool{}
	for _, item := range items {
		name, value, ok := strings.Cut(item, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return fmt.Errorf("Error in rusage section: want name=value such as mem=4G, got %s", quoteInput(item))
		}
		// duration and decay belong to what stands before them, so there may be several.
		if seen[name] && name != "duration" && name != "decay" {
			return fmt.Errorf("Error in rusage section: %s is given twice", quoteInput(name))
		}
		seen[name] = true
		if err := p.rusage(name, value); err != nil {
			return fmt.Errorf("Error in rusage section: %s: %w", quoteInput(item), err)
		}
	}
	return nil
}

// rusage takes one name=value in.
func (p *resReqParser) rusage(name, value string) error {
	value, scope, err := cutScope(value)
	if err != nil {
		return err
	}
	if scope != "" && scope != PerHost && name != "mem" && name != "swp" && name != "tmp" {
		return fmt.Errorf("%s is counted per host: /%s is not supported with it", quoteInput(name), scope)
	}
	r := &p.out
	switch name {
	case "mem":
		r.MemoryScope = scope
		r.Memory, err = p.phases(value)
	case "swp", "tmp":
		_, err = p.phases(value)
	case "duration":
		err = checkPhases(value, durationError)
	case "decay":
		err = checkPhases(value, func(v string) error {
			if v != "0" && v != "1" {
				return fmt.Errorf("want decay=0 or decay=1, got %s", quoteInput(v))
			}
			return nil
		})
	case "fgpu":
		r.FGPU, err = nodes.ParseAmount(value)
	case "ngpus_physical", "ngpus_excl_p":
		var n int64
		n, err = parseQuantity(value, maxGPUs)
		r.WholeGPUs = int(n)
		p.exclusiveGPU = p.exclusiveGPU || name == "ngpus_excl_p"
	case "gmem":
		if r.GPUMemory, err = parseSize(value, p.opt.unit()); err == nil && r.GPUMemory == 0 {
			err = errors.New("want more than 0")
		}
		r.GPUMemory = wholeMiB(r.GPUMemory)
	case "gmodel":
		r.GPUModel, err = gpuModel(value)
	default:
		return p.consumable(name, value)
	}
	return err
}

func (p *resReqParser) consumable(name, value string) error {
	for _, c := range p.opt.Consumables {
		if c != name {
			continue
		}
		n, err := parseQuantity(value, maxQuantity)
		if err != nil {
			return err
		}
		if p.out.Consumables == nil {
			p.out.Consumables = map[string]int64{}
		}
		p.out.Consumables[name] = n
		return nil
	}
	known := append([]string{"mem", "swp", "tmp", "fgpu", "ngpus_physical", "gmem", "gmodel"}, p.opt.Consumables...)
	return fmt.Errorf("no resource %s that can be reserved: want one of %s", quoteInput(name), strings.Join(known, " "))
}

// cutScope takes "/host", "/task" or "/job" off a value.
func cutScope(value string) (string, Scope, error) {
	v, scope, ok := strings.Cut(value, "/")
	if !ok {
		return value, "", nil
	}
	switch s := Scope(strings.TrimSpace(scope)); s {
	case PerHost, PerTask, PerJob:
		return strings.TrimSpace(v), s, nil
	}
	return "", "", fmt.Errorf("want /host, /task or /job after a value, got /%s", quoteInput(scope))
}

// phases reads a size, or "(50 10)": the sizes that a job needs one after another, of which the
// largest is what it must be given, since reservations here last as long as the job.
func (p *resReqParser) phases(value string) (int64, error) {
	largest := int64(0)
	err := checkPhases(value, func(v string) error {
		n, err := parseSize(v, p.opt.unit())
		largest = max(largest, n)
		if err != nil {
			return fmt.Errorf("Expected number, string or list of them: %w", err)
		}
		return nil
	})
	return largest, err
}

// checkPhases calls check for the one value, or for each of "(a b)".
func checkPhases(value string, check func(string) error) error {
	inner, list := strings.CutPrefix(value, "(")
	if !list {
		return check(value)
	}
	inner, closed := strings.CutSuffix(inner, ")")
	values := strings.Fields(inner)
	if !closed || len(values) == 0 {
		return fmt.Errorf("want values in parentheses such as (50 10), got %s", quoteInput(value))
	}
	for _, v := range values {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

func durationError(v string) error {
	digits := v
	if v != "" && strings.IndexByte("hmsHMS", v[len(v)-1]) >= 0 {
		digits = v[:len(v)-1]
	}
	if !allDigits(digits) || len(digits) > 9 {
		return fmt.Errorf("want a duration such as 5, 5m, 1h or 30s, got %s", quoteInput(v))
	}
	return nil
}

func parseQuantity(s string, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || !allDigits(s) || n > most {
		return 0, fmt.Errorf("Expected number from 0 to %d, got %s", most, quoteInput(s))
	}
	return n, nil
}

// wholeMiB rounds up to what GPU memory is counted in.
func wholeMiB(bytes int64) int64 { return (bytes + mib - 1) / mib * mib }

// gpuModel reads gmodel's value: part of a model's name, quoted if it has to be.
func gpuModel(value string) (string, error) {
	model := strings.TrimSpace(unquoteWhole(value))
	if err := displayError(model); err != nil || model == "" || len(model) > 100 || strings.ContainsAny(model, `:,="'/()[]`) {
		return "", fmt.Errorf("want part of a GPU model's name, such as gmodel=A100, got %s", quoteInput(value))
	}
	return model, nil
}
