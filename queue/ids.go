package queue

import (
	"fmt"
	"strconv"
	"strings"
)

// JobID is a job's number: unique for ever in a cluster, never reused, from 1.
type JobID int64

// ElementID names one element. Index is 0 for a job that is not an array.
type ElementID struct {
	Job   JobID
	Index int
}

// String prints LSF's form: "123" or "123[4]".
func (e ElementID) String() string {
	if e.Index == 0 {
		return strconv.FormatInt(int64(e.Job), 10)
	}
	return fmt.Sprintf("%d[%d]", e.Job, e.Index)
}

// AttemptKey names one attempt of one element in file and cgroup names: "123.4.1".
func (e ElementID) AttemptKey(attempt int) string {
	return fmt.Sprintf("%d.%d.%d", e.Job, e.Index, attempt)
}

// ParseAttemptKey is the inverse of AttemptKey.
func ParseAttemptKey(s string) (ElementID, int, error) {
	parts := strings.Split(s, ".")
	if len(parts) == 3 {
		job, err1 := strconv.ParseInt(parts[0], 10, 64)
		index, err2 := strconv.Atoi(parts[1])
		attempt, err3 := strconv.Atoi(parts[2])
		e := ElementID{JobID(job), index}
		if err1 == nil && err2 == nil && err3 == nil && job > 0 && index >= 0 && attempt > 0 && e.AttemptKey(attempt) == s {
			return e, attempt, nil
		}
	}
	return ElementID{}, 0, fmt.Errorf("%q is not an attempt key such as 123.0.1", s)
}
