package queue

import (
	"errors"
	"fmt"

	"fairslice/nodes"
)

// Request is what the option asks of one host that runs this many of the job's tasks:
//
//	fgpu=X                             X fGPU
//	num=N:gmem=SIZE                    N slices, each the smallest of its GPU that has SIZE
//	num=N                              N whole GPUs
//	num=N with exclusive_process or j_exclusive=yes
//	                                   N whole GPUs, each with at least gmem
//
// num=N:mode=shared without a size is N whole GPUs too: LSF lets jobs share such a GPU without
// bounds, which no slice can express, and a share of the system's choosing would be a guess.
func (o GPUOption) Request(tasks int) nodes.GPURequest {
	r := nodes.GPURequest{Model: o.Model}
	n := o.Num
	if o.PerTask {
		n *= max(tasks, 1)
	}
	switch {
	case o.FGPU > 0:
		r.Amount = o.FGPU
	case o.Exclusive:
		r.Whole, r.MinMemory = n, o.Memory
	case o.Memory > 0:
		r.Memory, r.Count = o.Memory, n
	default:
		r.Whole = n
	}
	return r
}

// gpuRequest is what rusage asks of each host, by the same meaning: fgpu; ngpus_physical whole GPUs;
// ngpus_physical slices of gmem, or one.
func (r ResReq) gpuRequest() (nodes.GPURequest, error) {
	switch {
	case r.FGPU > 0 && r.WholeGPUs > 0:
		return nodes.GPURequest{}, errors.New("Error in rusage section: fgpu and ngpus_physical are both given: give one of them")
	case r.FGPU > 0 && r.GPUMemory > 0:
		return nodes.GPURequest{}, errors.New("Error in rusage section: fgpu and gmem both say how large the slice is: give one of them")
	case r.FGPU > 0:
		return nodes.GPURequest{Amount: r.FGPU, Model: r.GPUModel}, nil
	case r.GPUMemory > 0:
		return nodes.GPURequest{Memory: r.GPUMemory, Count: max(r.WholeGPUs, 1), Model: r.GPUModel}, nil
	case r.WholeGPUs > 0:
		return nodes.GPURequest{Whole: r.WholeGPUs, Model: r.GPUModel}, nil
	case r.GPUModel != "":
		return nodes.GPURequest{}, errors.New("Error in rusage section: gmodel needs fgpu, gmem or ngpus_physical beside it")
	}
	return nodes.GPURequest{}, nil
}

// GPURequest is what a job asks of the GPUs of each of its hosts, from -gpu or from rusage. Both may
// be given only when they ask for the same.
func GPURequest(s *Spec) (nodes.GPURequest, error) {
	byUsage, err := s.Resources.gpuRequest()
	if err != nil || s.GPURequest == nil {
		return byUsage, err
	}
	o := *s.GPURequest
	if err := o.validate(); err != nil {
		return nodes.GPURequest{}, fmt.Errorf("-gpu %s: %w", quoteInput(s.GPU), err)
	}
	tasks := 1
	if o.PerTask {
		if tasks, err = s.tasksPerHost(); err != nil {
			return nodes.GPURequest{}, err
		}
	}
	byOption := o.Request(tasks)
	if byOption.Whole > maxGPUs || byOption.Count > maxGPUs {
		return nodes.GPURequest{}, fmt.Errorf("-gpu %s: %d GPUs on one host, at most %d", quoteInput(s.GPU), max(byOption.Whole, byOption.Count), maxGPUs)
	}
	if !byUsage.Zero() && byUsage != byOption {
		return nodes.GPURequest{}, fmt.Errorf("-gpu %s and -R rusage ask for different GPUs: give one of them", quoteInput(s.GPU))
	}
	return byOption, nil
}

// tasksPerHost is how many tasks each host runs, where that is certain before placement.
func (s *Spec) tasksPerHost() (int, error) {
	least := max(s.MinSlots, 1)
	switch r := s.Resources; {
	case s.MaxSlots > least:
		return 0, errors.New("-gpu num=N/task needs a fixed number of tasks: give -n without a range")
	case least == 1 || r.OneHost:
		return least, nil
	case r.PerHost >= least:
		return least, nil
	case r.PerHost > 0 && least%r.PerHost == 0:
		return r.PerHost, nil
	}
	return 0, errors.New("-gpu num=N/task needs the same number of tasks on each host: add -R \"span[hosts=1]\" or -R \"span[ptile=n]\" with -n a multiple of n")
}
