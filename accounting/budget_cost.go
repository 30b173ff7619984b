package accounting

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// Cost is what budgets count: hundredths of a unit (fGPU, or whole GPUs) times milliseconds. It has 128 bits: a million GPUs
// for ten years are 3e19, and more than an int64 holds. A Cost is never negative.
type Cost struct{ high, low uint64 }

// hourCost is one hundredth of an hour of a unit: the unit of Budget.Hours.
const hourCost = 3_600_000

// CostOf is hundredths times milliseconds; what is negative counts as 0.
func CostOf(hundredths, millis int64) Cost {
	if hundredths <= 0 || millis <= 0 {
		return Cost{}
	}
	high, low := bits.Mul64(uint64(hundredths), uint64(millis))
	return Cost{high, low}
}

// ParseCost reads a whole number, as String writes it.
func ParseCost(text string) (Cost, error) {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return Cost{}, fmt.Errorf("%s: want a whole number from 0 to 2^128-1", shown(text))
	}
	return Cost{new(big.Int).Rsh(n, 64).Uint64(), new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()}, nil
}

// String is the whole number.
func (c Cost) String() string {
	n := new(big.Int).Lsh(new(big.Int).SetUint64(c.high), 64)
	return n.Or(n, new(big.Int).SetUint64(c.low)).String()
}

// Plus is the sum. It stays at the most that a Cost holds, which nothing real comes near.
func (c Cost) Plus(d Cost) Cost {
	low, carry := bits.Add64(c.low, d.low, 0)
	high, over := bits.Add64(c.high, d.high, carry)
	if over != 0 {
		return Cost{math.MaxUint64, math.MaxUint64}
	}
	return Cost{high, low}
}

// Minus is the difference, 0 where d is more.
func (c Cost) Minus(d Cost) Cost {
	if c.Compare(d) <= 0 {
		return Cost{}
	}
	low, borrow := bits.Sub64(c.low, d.low, 0)
	high, _ := bits.Sub64(c.high, d.high, borrow)
	return Cost{high, low}
}

// Compare is -1, 0 or 1 as c is less than, equal to or more than d.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.high, d.high), cmp.Compare(c.low, d.low))
}

// Int is the number, or the most that an int64 holds where it is more.
func (c Cost) Int() int64 {
	if c.high > 0 || c.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(c.low)
}

// Hours is the cost in hours of the unit, to the precision of a float.
func (c Cost) Hours() float64 {
	return (float64(c.high)*(1<<64) + float64(c.low)) / (100 * hourCost)
}
