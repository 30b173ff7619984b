package mps

import (
	"fmt"
	"strconv"
	"strings"
)

// Status is the state of an MPS server.
type Status string

const (
	StatusInitializing Status = "INITIALIZING" // clients wait
	StatusActive       Status = "ACTIVE"
	// StatusFault: a client made a fatal error. All clients of the server get it, and no new one is accepted until they
	// have all gone.
	StatusFault Status = "FAULT"
)

// ParsePids reads the answer to get_server_list and get_client_list: a process id on each line, none for an empty
// text. An error quotes the line that is something else.
func ParsePids(text string) ([]int, error) {
	var pids []int
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		pid, err := strconv.ParseInt(line, 10, 32)
		if err != nil || pid <= 0 || line[0] == '+' {
			return nil, fmt.Errorf("%q: want a process id on each line", clip(line))
		}
		pids = append(pids, int(pid))
	}
	return pids, nil
}

// ParseStatus reads the answer to get_server_status.
func ParseStatus(text string) (Status, error) {
	switch s := Status(strings.TrimSpace(text)); s {
	case StatusInitializing, StatusActive, StatusFault:
		return s, nil
	}
	return "", fmt.Errorf("%q: want %s, %s or %s", clip(strings.TrimSpace(text)), StatusInitializing, StatusActive, StatusFault)
}

// ParsePercentage reads the answer to get_default_active_thread_percentage: "25.0".
func ParsePercentage(text string) (float64, error) {
	text = strings.TrimSpace(text)
	for _, c := range []byte(text) { // ParseFloat takes more forms than a daemon prints
		if c != '.' && (c < '0' || c > '9') {
			return 0, fmt.Errorf("%q: want a percentage such as 25.0", clip(text))
		}
	}
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || p < 0 || p > 100 {
		return 0, fmt.Errorf("%q: want a percentage such as 25.0", clip(text))
	}
	return p, nil
}

// clip keeps an answer that nobody expected from filling a log.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}
