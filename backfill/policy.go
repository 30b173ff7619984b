package backfill

import (
	"math"

	"fairslice/backfill/placement"
)

// Policy is how a planner decides.
type Policy struct {
	// Protected is how many elements that do not fit hold a promised start: 0 means that nothing passes the first
	// of them (fcfs), 1 is EASY backfill, All conservative backfill.
	Protected int
	// Order is the order in which elements are served, Candidates that in which those behind the protected ones
	// are tried; nil means as Order.
	Order      Order
	Candidates Order
	// Eager lays promises again in the next plan when some have moved in this one, since that may have made room for
	// others before them. Without it, as in the literature, only an end makes promises move.
	Eager bool
	// Placement chooses between nodes; nil means best fit.
	Placement placement.Policy
	// MaxStarts and MaxLooks bound the work of one plan; 0 means no bound.
	MaxStarts int
	MaxLooks  int
}

// All promises a start to everyone who waits.
const All = math.MaxInt
