package sif

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// config is what the format of a source says of the image beside its files.
type config struct {
	arch       string
	created    time.Time
	env        []string // NAME=value
	entrypoint []string
	cmd        []string
	workdir    string
	labels     map[string]string
}

// Where Apptainer looks in an image.
const (
	labelsFile = ".singularity.d/labels.json"
	runscript  = ".singularity.d/runscript"
	envDir     = ".singularity.d/env/"
)

// metadata makes what Apptainer expects in an image, where the tree does not have it. The image's labels are those
// that it had (found, in labelsFile) and those of its config, which count more.
func (t *tree) metadata(c config, found map[string]string) (inspectData, error) {
	labels := maps.Clone(found)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, c.labels)
	if c.workdir != "" && labels[workdirLabel] == "" {
		labels[workdirLabel] = c.workdir
	}
	text, err := json.MarshalIndent(labels, "", "\t")
	if err != nil {
		return inspectData{}, err
	}
	var meta inspectData
	meta.Type, meta.Data.Attributes.Labels = "container", text
	meta.Data.Attributes.Environment = map[string]string{}

	put := func(name string, mode fs.FileMode, data string, always bool) {
		if err == nil && (always || t.find(name) == nil) {
			err = t.set(name, mode, []byte(data))
		}
	}
	put(labelsFile, 0o644, string(text), true)
	if env := envScript(c.env); env != "" {
		put(envDir+"10-docker2singularity.sh", 0o755, env, true)
		meta.Data.Attributes.Environment["/"+envDir+"10-docker2singularity.sh"] = env
	}
	// Apptainer sets the variables of its option --env right after the script of this name.
	put(envDir+"99-base.sh", 0o755, "#!/bin/sh\n: \"${LD_LIBRARY_PATH:=/.singularity.d/libs}\"\nexport LD_LIBRARY_PATH\n", false)
	script := runScript(c.entrypoint, c.cmd)
	put(runscript, 0o755, script, len(c.entrypoint)+len(c.cmd) > 0)
	if n := t.find(runscript); n != nil && n.data != nil {
		meta.Data.Attributes.Runscript = script
	}
	if err != nil {
		return inspectData{}, err
	}
	t.mountPoints()
	return meta, nil
}

// workdirLabel keeps where an image's own command starts; Apptainer itself starts it where the user is.
const workdirLabel = "fairslice.workdir"

// mountPoints makes the places that Apptainer binds the node's files over.
func (t *tree) mountPoints() {
	for _, name := range []string{"dev", "home", "proc", "root", "run", "sys", "etc", "var"} {
		t.mkdir(t.root, name, 0o755)
	}
	t.mkdir(t.root, "tmp", 0o777|fs.ModeSticky)
	if v := t.root.children["var"]; v.kind == isDir {
		t.mkdir(v, "tmp", 0o777|fs.ModeSticky)
	}
	if meta := t.root.children[".singularity.d"]; meta != nil && meta.kind == isDir {
		t.mkdir(meta, "libs", 0o755)
	}
	if etc := t.root.children["etc"]; etc.kind == isDir {
		for _, name := range []string{"hosts", "resolv.conf", "localtime", "passwd", "group"} {
			if etc.children[name] == nil {
				etc.children[name] = &node{inode: &inode{mode: 0o644, layer: synthetic}}
			}
		}
	}
}

// envScript sets an image's variables as Apptainer does: one that is set already stays, except PATH. What is no name for
// a shell is left out.
func envScript(env []string) string {
	var b strings.Builder
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !shellName(name) || strings.Contains(value, "\x00") {
			continue
		}
		if name == "PATH" {
			fmt.Fprintf(&b, "%s=%s\n", name, quote(value))
		} else {
			fmt.Fprintf(&b, "[ -n \"${%s-}\" ] || %s=%s\n", name, name, quote(value))
		}
		fmt.Fprintf(&b, "export %s\n", name)
	}
	if b.Len() == 0 {
		return ""
	}
	return "#!/bin/sh\n" + b.String()
}

// runScript does what Docker does: arguments take the place of cmd. An image that names neither runs a shell.
func runScript(entrypoint, cmd []string) string {
	if len(entrypoint)+len(cmd) == 0 {
		return "#!/bin/sh\nexec /bin/sh \"$@\"\n"
	}
	words := func(list []string) string {
		var b strings.Builder
		for _, w := range list {
			b.WriteString(" " + quote(w))
		}
		return b.String()
	}
	script := "#!/bin/sh\n"
	if len(cmd) > 0 {
		script += "[ $# -gt 0 ] || set --" + words(cmd) + "\n"
	}
	return script + "exec" + words(entrypoint) + " \"$@\"\n"
}

// quote writes a word for a shell. Not in single quotes: the shell that Apptainer has inside leaves the backslash of '\”.
func quote(s string) string {
	return `"` + quoting.Replace(s) + `"`
}

var quoting = strings.NewReplacer("\x00", "", `\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`")

func shellName(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9')
	}) && (s[0] < '0' || s[0] > '9')
}
