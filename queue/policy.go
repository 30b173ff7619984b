package queue

import "time"

// PolicyState is the policy in force: who is in which account, with which shares, limits and budgets. The text is that of
// package accounting, and opaque here.
type PolicyState struct {
	Version int64     `json:"version"` // 0: none was ever set
	Text    string    `json:"text"`
	By      string    `json:"by"`
	At      time.Time `json:"at,omitzero"`
}

// PolicyChange replaces the policy as a whole. Only administrators may give one.
type PolicyChange struct {
	// Base is the version that the text was made from. When another is in force by now, the change is refused: its
	// author has not seen what he would undo.
	Base   int64
	Text   string
	DryRun bool // say what would change, and change nothing
	By     Identity
}

// PolicyOutcome is what a PolicyChange did, or would do.
type PolicyOutcome struct {
	Version int64    // in force now
	Diff    []string // in words, a line for each item; none when the text says what is in force already
}

// PolicyEntry is one change of the past.
type PolicyEntry struct {
	PolicyState
	Diff []string // to the one before
}
