package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairslice/api/wire"
)

// DefaultAddress is where batchd listens on its own host.
const DefaultAddress = "unix:///run/fairslice/batchd.sock"

// Config says where the batch daemon is and how patient to be.
type Config struct {
	Address string // unix:///path or https://host:port; "" is DefaultAddress
	Token   string // for https; "" reads TokenFile
	// TokenFile is read only for https.
	TokenFile string
	CAFile    string // PEM; "" trusts the system's authorities
	Tries     int    // until a daemon that does not answer is given up; 0 is 5
	// Backoff is the first pause between tries; it doubles up to eight times itself. 0 is half a second.
	Backoff time.Duration
	// MaxPause is the longest pause of a node between attempts to connect. 0 is 10 s.
	MaxPause time.Duration
	// Waiting is told before each pause, with LSF's line for standard error. May be nil.
	Waiting func(line string)
}

const stillTrying = "batch system daemon not responding ... still trying"

// FromEnv reads FAIRSLICE_ADDR, FAIRSLICE_TOKEN, FAIRSLICE_TOKEN_FILE, FAIRSLICE_CA and LSB_NTRIES.
// Files that the user did not name are looked for in ~/.config/fairslice.
func FromEnv(getenv func(string) string) Config {
	own := filepath.Join(getenv("HOME"), ".config", "fairslice")
	c := Config{Address: getenv("FAIRSLICE_ADDR"), Token: getenv("FAIRSLICE_TOKEN"), TokenFile: getenv("FAIRSLICE_TOKEN_FILE"), CAFile: getenv("FAIRSLICE_CA")}
	if c.Address == "" {
		c.Address = DefaultAddress
	}
	if strings.HasPrefix(c.Address, "https:") { // do not touch the disk where it is not needed
		if c.TokenFile == "" {
			c.TokenFile = filepath.Join(own, "token")
		}
		for _, file := range []string{filepath.Join(own, "ca.crt"), "/etc/fairslice/ca.crt"} {
			if _, err := os.Stat(file); c.CAFile == "" && err == nil {
				c.CAFile = file
			}
		}
	}
	if n, err := strconv.Atoi(getenv("LSB_NTRIES")); err == nil && n > 0 {
		c.Tries = n
	}
	return c
}

// resolve splits the address: a socket's path, or a base URL and the token for it.
func (c *Config) resolve() (socket, base string, err error) {
	if c.Address == "" {
		c.Address = DefaultAddress
	}
	if c.Tries <= 0 {
		c.Tries = 5
	}
	if c.Backoff <= 0 {
		c.Backoff = 500 * time.Millisecond
	}
	if path, ok := strings.CutPrefix(c.Address, "unix://"); ok && strings.HasPrefix(path, "/") {
		return path, "http://batchd", nil
	}
	host, ok := strings.CutPrefix(c.Address, "https://")
	if !ok || host == "" || strings.ContainsAny(host, " /?#@") {
		return "", "", wire.Errorf(wire.Invalid, "FAIRSLICE_ADDR is %q: want unix:///path or https://host:port", c.Address)
	}
	if c.Token == "" && c.TokenFile != "" {
		data, err := os.ReadFile(c.TokenFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // without one, the daemon says what to do
			return "", "", wire.Errorf(wire.Denied, "the token cannot be read: %v", err)
		}
		c.Token = strings.TrimSpace(string(data))
	}
	return "", c.Address, nil
}
