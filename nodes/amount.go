package nodes

import (
	"errors"
	"fmt"
	"strings"
)

// Amount is a quantity of GPU in 1/100 fGPU. How many fGPU one physical GPU is, the site decides
// (fgpu_per_gpu). An Amount is exact: 0.1 fGPU is 10, and ten of them are one.
type Amount int64

// OneFGPU is 1 fGPU.
const OneFGPU Amount = 100

// maxAmount bounds what can be parsed: 10,000 fGPU, more than any node has, so that sums cannot overflow.
const maxAmount = 10_000 * OneFGPU

// ParseAmount reads a decimal number of fGPU with at most two decimals, as in "0.5" or "2".
// Zero, signs, exponents, more than two decimals and anything above 10,000 are errors.
func ParseAmount(s string) (Amount, error) {
	whole, frac, dotted := strings.Cut(s, ".")
	if whole == "" && frac == "" {
		return 0, errors.New("empty: want a number of fGPU such as 0.5")
	}
	if dotted && frac == "" || len(frac) > 2 {
		return 0, fmt.Errorf("%q: want a number of fGPU with at most two decimals, such as 0.25", s)
	}
	var a Amount
	for _, part := range []string{whole, (frac + "00")[:2]} {
		for _, c := range []byte(part) {
			if c < '0' || c > '9' {
				return 0, fmt.Errorf("%q: want a number of fGPU such as 0.5", s)
			}
			if a = a*10 + Amount(c-'0'); a > maxAmount {
				return 0, fmt.Errorf("%q: more than %d fGPU", s, maxAmount/OneFGPU)
			}
		}
	}
	if a == 0 {
		return 0, fmt.Errorf("%q: want more than 0 fGPU", s)
	}
	return a, nil
}

// String prints fGPU without trailing zeros: "0.5", "2", "1.25".
func (a Amount) String() string {
	sign := ""
	if a < 0 {
		sign, a = "-", -a
	}
	s := fmt.Sprintf("%s%d.%02d", sign, a/OneFGPU, a%OneFGPU)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}
