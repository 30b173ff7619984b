package accounting

import (
	"fmt"
	"strconv"
	"strings"

	"fairslice/nodes"
)

// newLimit is a limit that limits nothing.
func newLimit(s Scope) Limit {
	return Limit{Scope: s, Running: NoLimit, Pending: NoLimit, Slots: NoLimit, Memory: NoLimit, FGPU: NoLimit, Sessions: NoLimit, Wall: NoLimit, Rate: NoLimit}
}

// number is one of the numbers of a limit.
type number struct {
	name  string
	parse func(l *Limit, v string) error
	text  func(l *Limit) string // "" when it is not given
}

// numbers are those of a limit, in the order in which they are printed.
var numbers = []number{
	whole("running", func(l *Limit) *int64 { return &l.Running }),
	whole("pending", func(l *Limit) *int64 { return &l.Pending }),
	whole("slots", func(l *Limit) *int64 { return &l.Slots }),
	{"memory", func(l *Limit, v string) (err error) { return given(&l.Memory, v, parseSize) },
		func(l *Limit) string { return textOf(l.Memory, sizeString) }},
	{"fgpu", func(l *Limit, v string) error { return given(&l.FGPU, v, parseFGPU) },
		func(l *Limit) string { return textOf(l.FGPU, nodes.Amount.String) }},
	whole("sessions", func(l *Limit) *int64 { return &l.Sessions }),
	{"wall", func(l *Limit, v string) error { return given(&l.Wall, v, parseWall) },
		func(l *Limit) string { return textOf(l.Wall, wallString) }},
	{"rate", func(l *Limit, v string) error { return given(&l.Rate, v, parseRate) },
		func(l *Limit) string {
			return textOf(l.Rate, func(n int64) string { return strconv.FormatInt(n, 10) + "/m" })
		}},
}

func whole(name string, field func(*Limit) *int64) number {
	parse := func(v string) (int64, error) { return parseWhole(v, maxCount) }
	return number{name,
		func(l *Limit, v string) error { return given(field(l), v, parse) },
		func(l *Limit) string {
			return textOf(*field(l), func(n int64) string { return strconv.FormatInt(n, 10) })
		}}
}

func parseFGPU(v string) (nodes.Amount, error) {
	n, err := parseHundredths(v, maxFGPU)
	return nodes.Amount(n), err
}

// given stores a number in a limit.
func given[T any](to *T, v string, parse func(string) (T, error)) error {
	n, err := parse(v)
	if err == nil {
		*to = n
	}
	return err
}

func textOf[T ~int64](n T, text func(T) string) string {
	if n == NoLimit {
		return ""
	}
	return text(n)
}

// String is the policy's canonical text: ParsePolicy gives the same policy again, and equal policies have equal texts.
// Accounts come as a tree, each after its parent.
func (p *Policy) String() string {
	var b strings.Builder
	if p == nil {
		return ""
	}
	below := map[string][]Account{}
	for _, a := range p.Accounts {
		below[a.Parent] = append(below[a.Parent], a)
	}
	var print func(parent string)
	print = func(parent string) {
		for _, a := range below[parent] {
			b.WriteString(a.String() + "\n")
			print(a.Name)
		}
	}
	print(Root)
	if _, ok := p.Account(DefaultAccount); !ok {
		print(DefaultAccount)
	}
	for i := range p.Members {
		b.WriteString(p.Members[i].text(len(p.Places(p.Members[i].User)) > 1) + "\n")
	}
	for i := range p.Limits {
		b.WriteString(p.Limits[i].String() + "\n")
	}
	for i := range p.Budgets {
		b.WriteString(p.Budgets[i].String() + "\n")
	}
	return b.String()
}

// String is the account's line.
func (a Account) String() string {
	s := "account " + a.Name
	if a.Parent != Root {
		s += " parent=" + a.Parent
	}
	s += fmt.Sprint(" shares=", a.Shares)
	if a.Description != "" {
		s += " description=" + quote(a.Description)
	}
	return s
}

// String is the member's line. Of a user's only place it says default although it need not.
func (m Member) String() string { return m.text(true) }

func (m Member) text(several bool) string {
	s := fmt.Sprintf("user %s account=%s shares=%d", m.User, m.Account, m.Shares)
	if m.Default && several {
		s += " default"
	}
	return s
}

// String is the limit's line.
func (l Limit) String() string { return "limit " + l.Scope.String() + l.numbers() }

// numbers are those that are given, each after a blank.
func (l Limit) numbers() string {
	s := ""
	for _, n := range numbers {
		if text := n.text(&l); text != "" {
			s += " " + n.name + "=" + text
		}
	}
	return s
}

// String is the budget's line.
func (b Budget) String() string {
	s := fmt.Sprintf("budget account=%s %s=%s period=%s", b.Account, b.Unit, hundredths(b.Hours), b.periodText())
	if b.From != (Date{}) {
		s += " from=" + b.From.String()
	}
	if b.Hard {
		return s + " hard"
	}
	return s + " soft"
}

func (b Budget) periodText() string {
	if b.Period == UntilDate {
		return untilPrefix + b.Until.String()
	}
	return string(b.Period)
}
