package nodes

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Consumables is a set of custom resources with whole quantities, in canonical text: names sorted,
// "name=quantity" joined by commas. Text, because a Request has to be comparable.
type Consumables string

// MakeConsumables builds the canonical text. Quantities must be positive; zero ones are left out.
func MakeConsumables(m map[string]int64) Consumables {
	names := make([]string, 0, len(m))
	for n, q := range m {
		if q > 0 {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%d", n, m[n])
	}
	return Consumables(b.String())
}

// Map is the inverse of MakeConsumables. What is not canonical is left out: the text is only ever made by MakeConsumables.
func (c Consumables) Map() map[string]int64 {
	if c == "" {
		return nil
	}
	m := map[string]int64{}
	for _, item := range strings.Split(string(c), ",") {
		name, text, ok := strings.Cut(item, "=")
		if q, err := strconv.ParseInt(text, 10, 64); ok && err == nil {
			m[name] = q
		}
	}
	return m
}

// Plus is the sum.
func (c Consumables) Plus(d Consumables) Consumables {
	return c.merge(d, func(x, y int64) int64 { return x + y })
}

// Minus takes d away; nothing gets below 0.
func (c Consumables) Minus(d Consumables) Consumables {
	return c.merge(d, func(x, y int64) int64 { return max(x-y, 0) })
}

// Most is the greater quantity of each.
func (c Consumables) Most(d Consumables) Consumables {
	return c.merge(d, func(x, y int64) int64 { return max(x, y) })
}

func (c Consumables) merge(d Consumables, of func(x, y int64) int64) Consumables {
	if d == "" {
		return c
	}
	m := c.Map()
	if m == nil {
		m = map[string]int64{}
	}
	for name, q := range d.Map() {
		m[name] = of(m[name], q)
	}
	return MakeConsumables(m)
}
