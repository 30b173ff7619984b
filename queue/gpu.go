package queue

import (
	"errors"
	"fmt"
	"strings"

	"fairslice/nodes"
)

// gpuKeys are the words of -gpu, for error texts.
const gpuKeys = "num mode mps j_exclusive aff block gpack gvendor gmodel gtile gmem glink mig fgpu"

// ParseGPU reads -gpu: "-" for the defaults, or key=value joined by ":". unit is the site's, for a
// bare number of gmem; 0 is MB.
//
// What counts: num=N[/task|/host], mode=shared|exclusive_process, j_exclusive, gmem, gmodel (part of
// the model's name) and, ours, fgpu=X (that much on each host). See Request for what they ask for.
//
// What is checked and has no effect, each with a note for the user: mps (a slice is enforced the way
// its node is set up), aff, block, gpack, gtile and glink (placement follows the site's policy), mig (a
// MIG size: ask with gmem or fgpu). gvendor=nvidia is what there is; amd is an error.
func ParseGPU(s string, unit int64) (opt GPUOption, notes []string, err error) {
	if unit <= 0 {
		unit = mib
	}
	text := strings.TrimSpace(unquoteWhole(s))
	seen := map[string]bool{}
	if text != "-" {
		items, err := splitOutside(text, ":")
		if err != nil {
			return GPUOption{}, nil, fmt.Errorf("-gpu %s: %w", quoteInput(s), err)
		}
		for _, item := range items {
			key, value, ok := strings.Cut(item, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			switch {
			case !ok || value == "":
				err = fmt.Errorf("want \"-\" or key=value:…, with keys %s; got %s", gpuKeys, quoteInput(item))
			case seen[key]:
				err = fmt.Errorf("%s is given twice", quoteInput(key))
			default:
				var note string
				if note, err = opt.set(key, value, unit); note != "" {
					notes = append(notes, "-gpu "+key+": "+note)
				}
			}
			if err != nil {
				return GPUOption{}, nil, fmt.Errorf("-gpu %s: %w", quoteInput(s), err)
			}
			seen[key] = true
		}
	}
	if opt.FGPU == 0 && opt.Num == 0 {
		opt.Num = 1
	}
	if err := opt.validate(); err != nil {
		return GPUOption{}, nil, fmt.Errorf("-gpu %s: %w", quoteInput(s), err)
	}
	if opt.FGPU > 0 {
		opt.Num, opt.PerTask = 0, false // num=1 beside fgpu says nothing more
	}
	return opt, notes, nil
}

// set takes one key in and says, in a note, when it has no effect.
func (o *GPUOption) set(key, value string, unit int64) (note string, err error) {
	switch key {
	case "num":
		value, scope, err := cutScope(value)
		if err != nil || scope == PerJob {
			return "", errors.New("num: want num=N, num=N/task or num=N/host")
		}
		n, err := parseQuantity(value, maxGPUs)
		if err != nil || n == 0 {
			return "", fmt.Errorf("num: Expected number from 1 to %d, got %s", maxGPUs, quoteInput(value))
		}
		o.Num, o.PerTask = int(n), scope == PerTask
	case "mode":
		switch value {
		case "shared":
			o.Shared = true
		case "exclusive_process":
			o.Exclusive = true
		default:
			return "", fmt.Errorf("mode: want shared or exclusive_process, got %s", quoteInput(value))
		}
	case "j_exclusive":
		yes, err := yesNo(key, value)
		o.Exclusive = o.Exclusive || yes
		return "", err
	case "gmem":
		bytes, err := parseSize(value, unit)
		if err != nil || bytes == 0 {
			return "", fmt.Errorf("gmem: want a size such as 4G, got %s", quoteInput(value))
		}
		o.Memory = wholeMiB(bytes)
	case "gmodel":
		if o.Model, err = gpuModel(value); err != nil {
			return "", err
		}
	case "fgpu":
		if o.FGPU, err = nodes.ParseAmount(value); err != nil {
			return "", fmt.Errorf("fgpu: %w", err)
		}
	default:
		return withoutEffect(key, value)
	}
	return "", nil
}

// withoutEffect checks the keys of LSF that change nothing here.
func withoutEffect(key, value string) (note string, err error) {
	switch key {
	case "mps":
		words := strings.Split(value, ",")
		for i, w := range words {
			switch w = strings.TrimSpace(w); {
			case i == 0 && (w == "yes" || w == "no" || w == "per_socket" || w == "per_gpu"):
			case i > 0 && words[0] != "no" && (w == "shared" || w == "nocvd"):
			default:
				return "", fmt.Errorf("mps: want yes, no, per_socket or per_gpu, then ,shared or ,nocvd; got %s", quoteInput(value))
			}
		}
		if value == "no" {
			return "", nil
		}
		return "has no effect: how a slice is enforced is the node's setting", nil
	case "aff", "block", "gpack", "glink":
		yes, err := yesNo(key, value)
		if err != nil || !yes {
			return "", err
		}
		return "has no effect: GPUs are placed by the site's policy", nil
	case "gvendor":
		if value != "nvidia" {
			return "", fmt.Errorf("gvendor: only nvidia is supported, got %s", quoteInput(value))
		}
		return "", nil
	case "gtile":
		if v := strings.TrimSpace(unquoteWhole(value)); v != "!" {
			if _, err := parseSlotCount(v); err != nil {
				return "", fmt.Errorf("gtile: want a number or '!', got %s", quoteInput(value))
			}
		}
		return "has no effect: GPUs are placed by the site's policy", nil
	case "mig":
		gi, ci, slash := strings.Cut(value, "/")
		n, err1 := parseQuantity(gi, 8)
		m, err2 := parseQuantity(map[bool]string{true: ci, false: "1"}[slash], 8)
		if err1 != nil || err2 != nil || n == 0 || m == 0 {
			return "", fmt.Errorf("mig: want GI or GI/CI such as 2 or 3/1, got %s", quoteInput(value))
		}
		return "has no effect: ask for a part of a GPU with fgpu= or gmem=", nil
	}
	return "", fmt.Errorf("%s is not known: want one of %s", quoteInput(key), gpuKeys)
}

func yesNo(key, value string) (bool, error) {
	if value != "yes" && value != "no" {
		return false, fmt.Errorf("%s: want yes or no, got %s", key, quoteInput(value))
	}
	return value == "yes", nil
}

// validate rejects what contradicts itself. fgpu is the total of a host, so it cannot be multiplied
// by num, and a part of a GPU cannot be exclusive.
func (o GPUOption) validate() error {
	switch {
	case o.FGPU < 0 || o.Num < 0 || o.Num > maxGPUs || o.Memory < 0 || o.Memory > MaxMemory || o.FGPU == 0 && o.Num == 0:
		return errors.New("impossible quantities")
	case o.FGPU > 0 && (o.Num > 1 || o.PerTask):
		return errors.New("fgpu is the total on a host: give either fgpu=X or num=N")
	case o.FGPU > 0 && o.Exclusive:
		return errors.New("fgpu asks for a share of a GPU: leave out exclusive_process and j_exclusive, or ask for num=N")
	case o.FGPU > 0 && o.Memory > 0:
		return errors.New("fgpu and gmem both say how large the slice is: give one of them")
	}
	return nil
}

// String is the canonical text, which ParseGPU reads back.
func (o GPUOption) String() string {
	var words []string
	if o.FGPU > 0 {
		words = append(words, "fgpu="+o.FGPU.String())
	}
	if o.Num > 0 {
		words = append(words, fmt.Sprintf("num=%d%s", o.Num, map[bool]string{true: "/task"}[o.PerTask]))
	}
	if o.Shared {
		words = append(words, "mode=shared")
	}
	if o.Exclusive {
		words = append(words, "j_exclusive=yes")
	}
	if o.Memory > 0 {
		words = append(words, "gmem="+exactSize(o.Memory))
	}
	if o.Model != "" {
		words = append(words, "gmodel="+o.Model)
	}
	return strings.Join(words, ":")
}
