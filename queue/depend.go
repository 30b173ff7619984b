package queue

// Condition is a parsed -w expression.
type Condition interface {
	String() string
}
