package web

import (
	"fmt"
	"strconv"
	"strings"

	"fairslice/queue"
)

// elementPath names an element in a path: "12", or "12.3" for element 3 of an array.
func elementPath(id queue.ElementID) string {
	if id.Index == 0 {
		return strconv.FormatInt(int64(id.Job), 10)
	}
	return fmt.Sprintf("%d.%d", id.Job, id.Index)
}

// parseElement is the inverse of elementPath. Nothing else is understood: one element has one address.
func parseElement(s string) (id queue.ElementID, err error) {
	bad := fmt.Errorf("%.40q names no job: want its number, or NUMBER.INDEX", s)
	job, index, isElement := strings.Cut(s, ".")
	n, err := strconv.ParseInt(job, 10, 64)
	if err != nil || n < 1 {
		return id, bad
	}
	id.Job = queue.JobID(n)
	if isElement {
		i, err := strconv.ParseInt(index, 10, 32)
		if err != nil || i < 1 {
			return id, bad
		}
		id.Index = int(i)
	}
	if elementPath(id) != s {
		return id, bad
	}
	return id, nil
}
