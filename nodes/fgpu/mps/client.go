package mps

import (
	"fmt"
	"strconv"
	"strings"

	"fairslice/nodes"
)

// ClientDir is where a container has the pipe directory of its GPU's daemon. A file in it has a short name: the address
// of a socket has 107 characters.
const ClientDir = "/.fairslice/mps"

// Client is what makes a job's processes clients of a daemon.
type Client struct {
	Env      []string // NAME=value
	HostDir  string   // to be bound, writable, at
	GuestDir string   // this place of the container
}

// ClientOf gives what a job with these slices needs, of which exactly one must be in MPS mode (the others are not
// MPS's matter). pipeDir is Config.PipeDir of that GPU's daemon.
//
// The share is given to the driver as whole percent, rounded down, at least 1, so that the shares of a GPU do not add up
// to more than it has before the driver rounds each of them up to its unit. Memory is given in MiB, rounded down.
func ClientOf(slices []nodes.Slice, pipeDir string) (Client, error) {
	var ours []nodes.Slice
	var devices []string
	for _, s := range slices {
		devices = append(devices, s.UUID)
		if s.Mode == nodes.ModeMPS {
			ours = append(ours, s)
		}
	}
	if len(ours) != 1 {
		return Client{}, fmt.Errorf("job with %d slices in MPS mode (of %s): a process can be the client of one GPU's MPS daemon only",
			len(ours), strings.Join(devices, ", "))
	}
	s := ours[0]
	if s.SMShare <= 0 || s.SMShare > 10_000 {
		return Client{}, fmt.Errorf("slice of GPU %s: share of %d/100 percent: want 1 to 10000", s.UUID, s.SMShare)
	}
	mib := s.Memory >> 20
	if mib <= 0 {
		return Client{}, fmt.Errorf("slice of GPU %s: %d bytes: MPS limits memory in MiB, so that it needs 1 MiB", s.UUID, s.Memory)
	}
	return Client{
		Env: []string{
			"CUDA_MPS_PIPE_DIRECTORY=" + ClientDir,
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + strconv.Itoa(max(s.SMShare/100, 1)),
			fmt.Sprintf("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s=%dM", s.UUID, mib),
		},
		HostDir: pipeDir, GuestDir: ClientDir,
	}, nil
}
