package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// readSpan reads hosts=1, hosts=-1, ptile=n, ptile='!'[,type:n…], block[=n], stripe[=n] and gtile.
func (p *resReqParser) readSpan(body string) error {
	p.out.OneHost, p.out.PerHost = false, 0 // the last span stands
	items, err := splitOutside(body, ",")
	if err != nil {
		return fmt.Errorf("Bad resource requirement syntax: in span: %w", err)
	}
	last := ""
	for _, item := range items {
		key, value, _ := strings.Cut(item, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(unquoteWhole(value))
		if name, n, ok := strings.Cut(item, ":"); ok && last == "ptile" && hostNameError(strings.TrimSpace(name)) == nil {
			if _, err := parseSlotCount(n); err == nil {
				continue // ptile='!',type:n says how many for hosts of another type: there is one type here
			}
		}
		if err := p.span(key, value); err != nil {
			return fmt.Errorf("Bad resource requirement syntax: in span: %s: %w", quoteInput(item), err)
		}
		last = key
	}
	if p.out.OneHost && p.out.PerHost > 0 {
		return errors.New("Bad resource requirement syntax: in span: hosts=1 and a number for each host exclude each other")
	}
	return nil
}

func (p *resReqParser) span(key, value string) error {
	switch {
	case key == "hosts" && value == "1":
		p.out.OneHost = true
	case key == "hosts" && value == "-1":
	case key == "hosts":
		return errors.New("want hosts=1 or hosts=-1; for n slots on each host write ptile=n")
	case (key == "block" || key == "stripe") && value == "":
	case key == "ptile" || key == "block" || key == "stripe":
		if key == "ptile" && value == "!" {
			return nil
		}
		n, err := parseSlotCount(value)
		p.out.PerHost = n
		return err
	case key == "gtile":
		if value != "!" {
			_, err := parseSlotCount(value)
			return err
		}
	default:
		return errors.New("want hosts=1, hosts=-1, ptile=n, block=n, stripe=n or gtile=n")
	}
	return nil
}

// readOrder reads "r15s:-pg" and keeps it with blanks removed.
func (p *resReqParser) readOrder(body string) error {
	var keys []string
	for _, key := range strings.Split(body, ":") {
		key = strings.Join(strings.Fields(key), "")
		name := strings.TrimPrefix(strings.TrimPrefix(key, "!"), "-")
		switch p.opt.kind(name) {
		case sizeResource, numberResource:
			keys = append(keys, key)
		case noResource:
			if name == "" || !isPlainName(name) {
				return fmt.Errorf("Bad resource requirement syntax: in order: want names such as order[-slots:mem], got %s", quoteInput(body))
			}
			return unknownResource(name)
		default:
			return fmt.Errorf("Bad resource requirement syntax: in order: %s has no order", name)
		}
	}
	p.out.Order = strings.Join(keys, ":")
	return nil
}

func isPlainName(s string) bool {
	for i := range len(s) {
		if !selectWord(s[i]) {
			return false
		}
	}
	return s != ""
}

// readSame reads "type:model".
func (p *resReqParser) readSame(body string) error {
	for _, name := range strings.Split(body, ":") {
		if name = strings.TrimSpace(name); !isPlainName(name) {
			return fmt.Errorf("Bad resource requirement syntax: in same: want names such as same[type:model], got %s", quoteInput(body))
		}
		if p.opt.kind(name) == noResource {
			return unknownResource(name)
		}
	}
	return nil
}

// readCU reads "type=enclosure:pref=minavail:maxcus=2:excl".
func (p *resReqParser) readCU(body string) error {
	for _, item := range strings.Split(body, ":") {
		key, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		ok := false
		switch key {
		case "type", "pref":
			ok = isPlainName(value)
		case "maxcus", "usablecuslots":
			_, err := parseSlotCount(value)
			ok = err == nil
		case "balance", "excl":
			ok = value == ""
		}
		if !ok {
			return fmt.Errorf("Bad resource requirement syntax: in cu: want type=name pref=name maxcus=n usablecuslots=n balance excl, got %s", quoteInput(item))
		}
	}
	return nil
}

const maxCores = 4096 // of one task

// readAffinity reads "core(2,same=socket)*2:cpubind=core:membind=localonly" and keeps the CPUs of a task.
func (p *resReqParser) readAffinity(body string) error {
	items, err := splitOutside(body, ":")
	if err == nil {
		p.out.Cores, err = affinityCores(items[0])
	}
	for _, item := range items[min(len(items), 1):] {
		key, value, _ := strings.Cut(item, "=")
		if !slices.Contains([]string{"cpubind", "membind", "distribute"}, key) || value == "" {
			err = errors.Join(err, fmt.Errorf("want cpubind=, membind= or distribute=, got %s", quoteInput(item)))
			break
		}
	}
	if err != nil {
		return fmt.Errorf("Bad resource requirement syntax: in affinity: %w", err)
	}
	return nil
}

// affinityCores reads "core", "core(2)", "core(2,same=socket)" and "thread(2)*4".
func affinityCores(s string) (int, error) {
	unit, args, hasArgs := strings.Cut(s, "(")
	count, times := "1", "1"
	if hasArgs {
		inside, after, _ := cutLast(args, ')')
		args, times = inside, "1"
		if star, ok := strings.CutPrefix(strings.TrimSpace(after), "*"); ok {
			times = star
		} else if strings.TrimSpace(after) != "" {
			return 0, fmt.Errorf("%s is not understood after core(n)", quoteInput(after))
		}
		count, _, _ = strings.Cut(args, ",")
	} else if name, star, ok := strings.Cut(unit, "*"); ok {
		unit, times = name, star
	}
	switch unit = strings.TrimSpace(unit); unit {
	case "core", "thread":
	case "socket", "numa":
		return 0, fmt.Errorf("%s is not supported: ask for core(n)", unit)
	default:
		return 0, fmt.Errorf("want core(n) or thread(n), got %s", quoteInput(s))
	}
	n, err1 := strconv.Atoi(strings.TrimSpace(count))
	m, err2 := strconv.Atoi(strings.TrimSpace(times))
	if err1 != nil || err2 != nil || n < 1 || m < 1 || n > maxCores || m > maxCores || n*m > maxCores {
		return 0, fmt.Errorf("want from 1 to %d cores a task, got %s", maxCores, quoteInput(s))
	}
	return n * m, nil
}

// cutLast is strings.Cut at the last c.
func cutLast(s string, c byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, c); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
