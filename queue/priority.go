package queue

// Priority is what decides when a waiting element's turn is. Queue and User come first; of equal ones the element with the
// greater total is served first, of those the one that came first.
type Priority struct {
	Queue int // of the queue
	User  int // -sp
	// OverBudget says that its account has spent a soft budget: it comes after all that have some left, whatever the rest says.
	OverBudget bool
	// Parts add up to Total. There are none under an order that only asks who came first, or who is shortest.
	Parts []PriorityPart
	Total float64
	// Late says that it has waited so long that it comes before all that have not; Parts no longer matter.
	Late bool
}

// PriorityPart is one term: Points is Weight times Factor.
type PriorityPart struct {
	Name   string // "fair share", "age", "size", "xfactor": the words of the configuration's weights
	Weight float64
	Factor float64
	Points float64
}

// PriorityOf takes apart the number by which a Shape is served before others: a queue's priority, then the user's own.
func PriorityOf(s *Shape) Priority {
	n := InBudget(s.Priority)
	return Priority{Queue: n / userPriorities, User: n % userPriorities, OverBudget: s.Priority < 0}
}

// OverBudget is the number of a Shape whose account has spent its budget: less than that of every other Shape, and among
// themselves as they were.
func OverBudget(priority int) int { return priority - overBudget }

// InBudget is the number before OverBudget, or the same where that was not called.
func InBudget(priority int) int {
	if priority < 0 {
		priority += overBudget
	}
	return priority
}

// overBudget is more than any priority of a queue gives.
const overBudget = 1 << 40

// ShapePriority is the number of a Shape for a queue's priority and the user's own, which counts from 0 to MaxUserPriority.
func ShapePriority(queue, user int) int {
	return queue*userPriorities + min(max(user, 0), MaxUserPriority)
}

// MaxUserPriority is the greatest that -sp counts as.
const MaxUserPriority = userPriorities - 1

// userPriorities is how many user priorities there are, 0 included: a Shape's priority is so many times the queue's.
const userPriorities = 10_000
