package agent

import (
	"path/filepath"
	"strings"

	"fairslice/queue"
)

// jobFiles are LSF's variables for the files of the job's directory, which is seen as dir.
func jobFiles(dir string) []string {
	return []string{"LSB_DJOB_HOSTFILE=" + filepath.Join(dir, "hosts"), "LSB_JOBFILENAME=" + filepath.Join(dir, "script")}
}

// environment is the assignment's with what only the node knows; of a name given twice the last counts.
func (t *attempt) environment(as queue.Assignment, cwd string) []string {
	own := []string{
		"HOME=" + as.Owner.Home, "USER=" + as.Owner.User, "LOGNAME=" + as.Owner.User, "PWD=" + cwd,
		"LSB_EXEC_HOSTTYPE=" + hostType(), "LSB_OUTDIR=" + cwd,
	}
	own = append(own, jobFiles(t.jobDir())...)
	if as.Owner.Shell != "" {
		own = append(own, "SHELL="+as.Owner.Shell)
	}
	if as.Spec.Interactive.HasPty() && as.Spec.Term != "" {
		own = append(own, "TERM="+as.Spec.Term)
	}
	index := map[string]int{}
	var out []string
	add := func(v string) {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return
		}
		if i, dup := index[name]; dup {
			out[i] = v
			return
		}
		index[name] = len(out)
		out = append(out, v)
	}
	for _, v := range as.Env {
		add(string(v))
	}
	for _, v := range own {
		add(v)
	}
	if _, ok := index["PATH"]; !ok {
		add("PATH=/usr/local/bin:/usr/bin:/bin")
	}
	return out
}
