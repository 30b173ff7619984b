package agent

import (
	"slices"
	"strconv"
)

// limitNames are what prlimit(1) calls LSF's limit options. Processes (-p) and threads (-T) are not here:
// the kernel counts them for a user, not for a job.
var limitNames = map[string]string{"C": "core", "c": "cpu", "D": "data", "F": "fsize", "S": "stack", "v": "as"}

// limits is the beginning of a command line that runs the rest under resource limits. The job's own
// user sets them, and can only lower them, so that no right of ours is needed.
func limits(given map[string]int64) []string {
	var out []string
	for letter, v := range given {
		if name := limitNames[letter]; name != "" {
			out = append(out, "--"+name+"="+strconv.FormatInt(v, 10))
		}
	}
	if out == nil {
		return nil
	}
	slices.Sort(out)
	return append(append([]string{"/usr/bin/prlimit"}, out...), "--")
}
