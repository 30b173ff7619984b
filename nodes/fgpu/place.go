package fgpu

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// Where a container has the fence's files, besides the region's in DefaultDir.
const (
	LibraryDest = DefaultDir + "/libfgpu.so"
	ProbeDest   = DefaultDir + "/probe"
	SMIDest     = DefaultDir + "/fgpu-smi"
	PreloadDest = "/etc/ld.so.preload"
	DriverDir   = "/.singularity.d/libs" // where Apptainer's --nv shows the real driver, and the loader looks first
)

// Programs are the names of the fence's programs in the directory that a build fills.
const (
	LibraryName = "libfgpu.so"
	ProbeName   = "fence-probe"
	SMIName     = "fgpu-smi"
)

// Bind shows a file of the host in the container.
type Bind struct {
	Source   string
	Dest     string
	ReadOnly bool
}

// Placement says what is to be seen in a job's container. Paths are absolute.
type Placement struct {
	Programs string // directory of LibraryName, ProbeName and SMIName
	Region   string // directory of the region
	// Driver is the directory of a simulated driver's libraries and of its simulated.conf; empty for a real one, which
	// Apptainer finds by itself.
	Driver string
	// Unfenced leaves the shim out, for an image it cannot be loaded in: the job then runs under the watchdog alone.
	Unfenced bool
}

// driverFiles are what a simulated driver consists of.
var driverFiles = []string{"libcuda.so.1", "libnvidia-ml.so.1", "simulated.conf"}

// Binds lists the files in the order to bind them, and writes the file of PreloadDest into the region's directory. Each source is
// there when it returns without an error. All are read-only but the region's usage.
//
// The shim is named in /etc/ld.so.preload rather than in LD_PRELOAD: the loader then takes it for each program of the
// container, whatever environment the program was given. What an image has in a file of that name is hidden.
func (p Placement) Binds() ([]Bind, error) {
	for name, dir := range map[string]string{"programs": p.Programs, "region": p.Region, "driver": p.Driver} {
		if !path.IsAbs(dir) && (dir != "" || name != "driver") {
			return nil, fmt.Errorf("place the fence: directory of the %s %q: want an absolute path", name, dir)
		}
	}
	all := []Bind{
		{filepath.Join(p.Region, SliceFile), DefaultDir + "/" + SliceFile, true},
		{filepath.Join(p.Region, UsageFile), DefaultDir + "/" + UsageFile, false},
		{filepath.Join(p.Programs, SMIName), SMIDest, true},
	}
	if !p.Unfenced {
		preload, err := WritePreload(p.Region)
		if err != nil {
			return nil, fmt.Errorf("place the fence: %w", err)
		}
		all = append(all,
			Bind{filepath.Join(p.Programs, LibraryName), LibraryDest, true},
			Bind{filepath.Join(p.Programs, ProbeName), ProbeDest, true},
			Bind{preload, PreloadDest, true})
	}
	if p.Driver != "" {
		for _, name := range driverFiles {
			all = append(all, Bind{filepath.Join(p.Driver, name), DriverDir + "/" + name, true})
		}
	}
	for _, b := range all {
		if info, err := os.Stat(b.Source); err != nil {
			return nil, fmt.Errorf("place the fence: %w", err)
		} else if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("place the fence: %s: %v, want a regular file", b.Source, info.Mode().Type())
		}
	}
	return all, nil
}

// WritePreload writes the file that names the shim to the loader into a region's directory and returns its path.
func WritePreload(region string) (string, error) {
	if err := write(region, PreloadFile, []byte(LibraryDest+"\n"), 0o444, os.Geteuid(), os.Getegid()); err != nil {
		return "", err
	}
	return filepath.Join(region, PreloadFile), nil
}
