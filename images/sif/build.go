package sif

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Bootstraps are the agents that a definition file may begin with, where the site says nothing else. Those that
// install a distribution (debootstrap, yum, …) need root.
var Bootstraps = []string{"localimage", "docker", "oras", "library"}

var needRoot = []string{"debootstrap", "yum", "dnf", "zypper", "arch", "busybox"}

// maxDefinition bounds what is read.
const maxDefinition = 1 << 20

// Definition is what matters of a definition file before it is run.
type Definition struct {
	Bootstraps []string // agent of each stage
	From       []string // what each stage begins with; "" where it does not say
	Host       []string // sections that run outside of the container: pre, setup
}

// ParseDefinition reads the headers of a definition file. allowed are the agents that may be used.
func ParseDefinition(text string, allowed []string) (Definition, error) {
	var d Definition
	if len(text) > maxDefinition || strings.ContainsRune(text, 0) {
		return d, fmt.Errorf("definition file: not a text of at most %d bytes", maxDefinition)
	}
	for i, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		// Looked for in every line: what Apptainer takes for a header must not pass for a part of a section.
		if section, ok := strings.CutPrefix(line, "%"); ok {
			switch name, _, _ := strings.Cut(strings.ToLower(section), " "); name {
			case "pre", "setup":
				d.Host = append(d.Host, name)
			}
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		value, _, _ = strings.Cut(value, "#")
		value = strings.TrimSpace(value)
		switch key = strings.ToLower(strings.TrimSpace(key)); {
		case !ok:
		case key == "bootstrap":
			value = strings.ToLower(value)
			switch {
			case slices.Contains(allowed, value):
			case slices.Contains(needRoot, value):
				return d, fmt.Errorf("definition file: line %d: Bootstrap: %s needs root; begin with one of %s", i+1, value, strings.Join(allowed, ", "))
			default:
				return d, fmt.Errorf("definition file: line %d: Bootstrap: %.80q: want one of %s", i+1, value, strings.Join(allowed, ", "))
			}
			d.Bootstraps, d.From = append(d.Bootstraps, value), append(d.From, "")
		case key == "from" && len(d.From) > 0 && d.From[len(d.From)-1] == "":
			d.From[len(d.From)-1] = value
		}
	}
	if len(d.Bootstraps) == 0 {
		return d, errors.New("definition file: it has no line Bootstrap:")
	}
	return d, nil
}

// BuildOptions say how an image is built. As is required for root: a definition file is a program of its user.
type BuildOptions struct {
	ApptainerOptions
	Allowed []string // agents; nil: Bootstraps
	// HostScripts allows %pre and %setup, which run outside of the container.
	HostScripts bool
}

// Build makes an image of a definition file. It runs Apptainer as an ordinary user, who needs subordinate ids or the fakeroot
// program where %post installs packages.
func Build(ctx context.Context, definition, dst string, o BuildOptions) (Result, error) {
	if o.As == nil && os.Geteuid() == 0 || o.As != nil && o.As.Uid == 0 {
		return Result{}, errors.New("build image: a definition file is never run as root; say as which user")
	}
	if o.Allowed == nil {
		o.Allowed = Bootstraps
	}
	d, err := ParseDefinition(definition, o.Allowed)
	if err != nil {
		return Result{}, fmt.Errorf("build image: %w", err)
	}
	if len(d.Host) > 0 && !o.HostScripts {
		return Result{}, fmt.Errorf("build image: definition file: %%%s runs outside of the container, which is not allowed here; use %%post", d.Host[0])
	}
	info, err := o.make(ctx, dst, StageFetch, definition, func(_, image string) []string {
		return []string{"build", image, "../" + inputName}
	})
	if err != nil {
		return Result{}, fmt.Errorf("build image: %w", err)
	}
	return Result{Info: info}, nil
}
