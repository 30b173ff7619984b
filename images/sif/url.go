package sif

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"fairslice/images"
)

// URL names an image in a registry.
type URL struct {
	Scheme string // "docker", "oras" or "library"
	Host   string // with its port, if it has one; empty: the scheme's own
	Path   string
	Tag    string
	Digest images.Digest
}

// ParseURL reads docker://, oras:// and library:// addresses, such as docker://registry.example:5000/team/torch:2.4.
// Docker and library images may leave the host out, an oras image may not. User names, passwords, queries and
// characters that have no place in such a name are errors.
func ParseURL(s string) (URL, error) {
	u, err := parseURL(s)
	if err != nil {
		return URL{}, fmt.Errorf("image address %.200q: %w", s, err)
	}
	return u, nil
}

func parseURL(s string) (URL, error) {
	const most = 1024
	scheme, rest, ok := strings.Cut(s, "://")
	u := URL{Scheme: scheme}
	switch {
	case len(s) > most:
		return u, fmt.Errorf("it has %d bytes; at most %d are allowed", len(s), most)
	case !ok || scheme != "docker" && scheme != "oras" && scheme != "library":
		return u, fmt.Errorf("want docker://, oras:// or library:// and a name, such as docker://ubuntu:24.04")
	}
	name, digest, ok := strings.Cut(rest, "@")
	if ok {
		var err error
		if u.Digest, err = images.ParseDigest(digest); err != nil {
			return u, fmt.Errorf("behind the @: %w", err)
		}
	}
	first, after, ok := strings.Cut(name, "/")
	if ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		if err := checkHost(first); err != nil {
			return u, err
		}
		u.Host, name = first, after
	} else if scheme == "oras" {
		return u, fmt.Errorf("it begins with no host; want oras://HOST/NAME:TAG")
	}
	if u.Path, u.Tag, ok = strings.Cut(name, ":"); ok && !isTag(u.Tag) {
		return u, fmt.Errorf("tag %.80q: want 1 to 128 letters, digits and . _ -, and no . or - at the start", u.Tag)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if !isName(part, scheme == "library") {
			return u, fmt.Errorf("%.80q in its name: want letters (small ones), digits and . _ - between them", part)
		}
	}
	return u, nil
}

func checkHost(s string) error {
	name := s
	if host, port, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return fmt.Errorf("port %.20q: want a number from 1 to 65535", port)
		}
		name = host
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || !chars(label, "-", true) || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%.80q is no host name", s)
		}
	}
	return nil
}

func isTag(s string) bool {
	return len(s) >= 1 && len(s) <= 128 && chars(s, "._-", true) && s[0] != '.' && s[0] != '-'
}

// isName is a part of an image's name; library names may have capital letters.
func isName(s string, capitals bool) bool {
	return s != "" && chars(s, "._-", capitals) && !strings.Contains("._-", s[:1]) && !strings.Contains("._-", s[len(s)-1:]) && !strings.Contains(s, "..")
}

func chars(s, others string, capitals bool) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (!capitals || c < 'A' || c > 'Z') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// Layered says that the registry has an image of layers there, of which Pull makes a SIF file; elsewhere it has the file itself.
func (u URL) Layered() bool { return u.Scheme == "docker" }

// String is the address; ParseURL reads it back.
func (u URL) String() string {
	s := u.Scheme + "://"
	if u.Host != "" {
		s += u.Host + "/"
	}
	s += u.Path
	if u.Tag != "" {
		s += ":" + u.Tag
	}
	if u.Digest != "" {
		s += "@" + string(u.Digest)
	}
	return s
}
