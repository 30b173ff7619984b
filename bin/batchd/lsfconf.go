package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fairslice/etc"
)

// writeLSFConf writes the files that LSF clients read directly (Nextflow, dask-jobqueue, Toil and
// others look for LSF_ENVDIR/lsf.conf; Snakemake's plugin for lsb.params). They say what bparams and
// badmin showconf say.
func writeLSFConf(cfg *etc.Config) error {
	dir := filepath.Join(cfg.StateDir, "lsf")
	params := filepath.Join(dir, "lsbatch", cfg.Cluster, "configdir")
	if err := os.MkdirAll(params, 0o755); err != nil {
		return err
	}
	var conf, lsb strings.Builder
	conf.WriteString("# written by batchd at each start; change fairslice.toml instead\n")
	lsb.WriteString("# written by batchd at each start; change fairslice.toml instead\nBegin Parameters\n")
	for _, p := range paramsOf(cfg) {
		if p.Section == "conf" {
			fmt.Fprintf(&conf, "%s=%s\n", p.Name, p.Value)
		} else {
			fmt.Fprintf(&lsb, "%s = %s\n", p.Name, p.Value)
		}
	}
	lsb.WriteString("End Parameters\n")
	if err := os.WriteFile(filepath.Join(dir, "lsf.conf"), []byte(conf.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(params, "lsb.params"), []byte(lsb.String()), 0o644)
}
