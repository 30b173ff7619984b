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
