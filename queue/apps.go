package queue

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxApps is how many apps one session may have.
const MaxApps = 16

var appName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ParseApps reads the value of -apps: names of apps of the image, separated by commas, each once. Whether the image has them
// is not known here.
func ParseApps(s string) ([]string, error) {
	names := strings.Split(s, ",")
	if len(names) > MaxApps {
		return nil, fmt.Errorf("%d apps: a session has at most %d", len(names), MaxApps)
	}
	for i, n := range names {
		if !appName.MatchString(n) {
			return nil, fmt.Errorf("%.80q: want names of letters, digits, '.', '_' and '-', separated by commas", n)
		}
		if slices.Contains(names[:i], n) {
			return nil, fmt.Errorf("%q is named twice", n)
		}
	}
	return names, nil
}
