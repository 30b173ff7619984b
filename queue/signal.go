package queue

import (
	"fmt"
	"strconv"
	"strings"
)

// signals are the names that bkill -s takes, with Linux's numbers (signal(7)).
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10,
	"SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17, "CONT": 18, "STOP": 19,
	"TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28,
	"IO": 29, "PWR": 30, "SYS": 31,
}

// ParseSignal reads "TERM", "SIGTERM", "term" or "15" and returns the name without SIG.
func ParseSignal(s string) (string, error) {
	up := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if _, ok := signals[up]; ok {
		return up, nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		for name, number := range signals {
			if number == n {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("%s: Bad signal name or number (such as TERM, SIGTERM or 15)", strconv.Quote(s))
}

// SignalNumber is the number of a name that ParseSignal returned, 0 for any other.
func SignalNumber(name string) int { return signals[name] }

// SignalText is what LSF's report says of a signal that ended a job: strsignal(3) of glibc.
func SignalText(n int) string {
	if t, ok := signalTexts[n]; ok {
		return t
	}
	return fmt.Sprintf("Unknown signal %d", n)
}

var signalTexts = map[int]string{
	1: "Hangup", 2: "Interrupt", 3: "Quit", 4: "Illegal instruction", 5: "Trace/breakpoint trap", 6: "Aborted",
	7: "Bus error", 8: "Floating point exception", 9: "Killed", 10: "User defined signal 1", 11: "Segmentation fault",
	12: "User defined signal 2", 13: "Broken pipe", 14: "Alarm clock", 15: "Terminated", 24: "CPU time limit exceeded",
	25: "File size limit exceeded", 31: "Bad system call",
}
