package main

import (
	"path/filepath"
	"slices"
	"strconv"

	"fairslice/api"
	"fairslice/etc"
)

// Describe is the configuration as lsid, bparams, bqueues and badmin showconf show it.
func (b *backend) Describe() api.Cluster {
	cfg := b.cfg.Load()
	c := api.Cluster{
		Name: cfg.Cluster, Master: b.host, Version: version, DefaultQueue: cfg.DefaultQueue,
		Params: paramsOf(cfg), MemoryUnit: cfg.MemoryUnit(), MaxArray: cfg.MaxJobArraySize,
		Consumables: cfg.ResourceNames(), TimeZone: cfg.Location().String(),
	}
	for name := range cfg.ImageFiles() {
		c.Images = append(c.Images, name)
	}
	slices.Sort(c.Images)
	for _, q := range cfg.Queues {
		info := api.QueueInfo{
			Name: q.Name, Description: q.Description, Priority: q.Priority, MaxSlots: q.MaxSlots, UserSlots: q.UserSlots,
			DefaultRunLimit: q.DefaultRunLimit, MaxRunLimit: q.MaxRunLimit, MaxMemory: q.MaxMemory, Hosts: q.Hosts,
			Users: q.Users, Exclusive: q.Exclusive, Rerunnable: q.Rerunnable, Container: q.Container, Image: q.Image,
			OverlaySize: overlaySize(&q),
		}
		if q.IdleAfter > 0 {
			info.IdleAfter, info.IdleWarn, info.IdleGPUBelow, info.IdleCPUBelow = q.IdleAfter, q.IdleWarn, q.IdleGPUBelow, q.IdleCPUBelow
		}
		c.Queues = append(c.Queues, info)
	}
	return c
}

// paramsOf are the names that LSF clients look for, with what is true here. Two titles come before
// LSF_UNIT_FOR_LIMITS in "conf", because some clients skip two lines.
func paramsOf(cfg *etc.Config) []api.Param {
	state := func(dir string) string { return filepath.Join(cfg.StateDir, dir) }
	list := []api.Param{
		{Section: "conf", Name: "LSF_ADMINS", Value: "root", Help: "administrators beside those of the configuration"},
		{Section: "conf", Name: "LSF_CONFDIR", Value: state("lsf"), Help: "directory of the files that LSF clients read"},
		{Section: "conf", Name: "LSF_ENVDIR", Value: state("lsf"), Help: "directory of lsf.conf"},
		{Section: "conf", Name: "LSB_JOB_MEMLIMIT", Value: "Y", Help: "-M is held for the whole job on each host"},
		{Section: "conf", Name: "LSB_SHAREDIR", Value: state("work"), Help: "state directory"},
		{Section: "conf", Name: "LSB_BSUB_PARSE_SCRIPT", Value: "Y", Help: "#BSUB lines of a script file count"},
		{Section: "conf", Name: "LSF_LOGDIR", Value: state("log"), Help: "logs go to standard error"},
		{Section: "params", Name: "DEFAULT_QUEUE", Value: cfg.DefaultQueue, Help: "Queue of jobs that name none"},
		{Section: "params", Name: "DEFAULT_PROJECT", Value: cfg.DefaultProject, Help: "Project of jobs that name none"},
		{Section: "params", Name: "CLEAN_PERIOD", Value: seconds(cfg.CleanPeriod.Seconds()), Help: "Seconds for which finished jobs are still listed"},
		{Section: "params", Name: "MAX_JOB_ARRAY_SIZE", Value: strconv.Itoa(cfg.MaxJobArraySize), Help: "Largest index of a job array"},
		{Section: "params", Name: "MAX_JOBID", Value: "2147483646", Help: "Largest job number before LSF would start again; ours never does"},
		{Section: "params", Name: "JOB_TERMINATE_INTERVAL", Value: seconds(cfg.TerminateInterval.Seconds()), Help: "Seconds between SIGINT, SIGTERM and SIGKILL"},
		{Section: "params", Name: "RESOURCE_RESERVE_PER_TASK", Value: "N", Help: "rusage[mem=] counts for each host, not for each task"},
		{Section: "params", Name: "MBD_SLEEP_TIME", Value: "1", Help: "Seconds between scheduling cycles when nothing happens"},
	}
	if cfg.UnitForLimits != "" {
		list = append(list, api.Param{Section: "conf", Name: "LSF_UNIT_FOR_LIMITS", Value: cfg.UnitForLimits, Help: "unit of bare memory numbers"})
	}
	return list
}

func seconds(s float64) string { return strconv.FormatInt(int64(s), 10) }
