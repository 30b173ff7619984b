package session

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
)

// ownPort says that 127.0.0.1:port leads to programs of this process's user, and to nobody else's. All jobs of a
// machine share its ports, and whoever comes first has one.
func ownPort(port int) (bool, error) {
	own, others, err := listeners(port)
	return own && !others, err
}

// listeners says whether programs of this process's user take connections to 127.0.0.1:port, and whether those of others do. It
// asks the kernel: another user's port need not let itself be tried (package portguard).
func listeners(port int) (own, others bool, err error) {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) && file == "/proc/net/tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return false, false, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			uid, ok := parseListener(lines.Text(), port)
			if !ok {
				continue
			}
			own = own || uid == os.Geteuid()
			others = others || uid != os.Geteuid()
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return false, false, err
		}
	}
	return own, others, nil
}

// listening is TCP_LISTEN, as /proc/net/tcp writes it.
const listening = "0A"

// parseListener reads a line of /proc/net/tcp or tcp6: whose socket it is, if it takes connections to 127.0.0.1:port.
func parseListener(line string, port int) (uid int, ok bool) {
	f := strings.Fields(line)
	if len(f) < 8 || f[3] != listening {
		return 0, false
	}
	address, hex, _ := strings.Cut(f[1], ":")
	if p, err := strconv.ParseUint(hex, 16, 16); err != nil || int(p) != port || !reachable(address) {
		return 0, false
	}
	uid, err := strconv.Atoi(f[7])
	return uid, err == nil
}

// reachable says that a local address, in the kernel's words of 4 bytes, is 127.0.0.1 or every address.
func reachable(address string) bool {
	switch {
	case len(address) == 8:
		return address == "0100007F" || address == "00000000" || address == "7F000001" // the last on big-endian machines
	case len(address) == 32:
		v4, mapped := strings.CutPrefix(address, "0000000000000000FFFF0000")
		if !mapped {
			v4, mapped = strings.CutPrefix(address, "00000000000000000000FFFF")
		}
		return strings.Trim(address, "0") == "" || mapped && reachable(v4)
	}
	return false
}
