package queue

import (
	"fmt"
	"strconv"
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
