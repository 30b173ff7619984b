package command

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/images"
	"fairslice/nodes/apptainer"
	"fairslice/queue/option"
)

// checkImage reads an image again: one of the catalogue on the batch host, a file here.
func checkImage(c *call, _ *option.Parsed, names []string) int {
	if len(names) != 1 {
		return c.fail("bimage: check needs the name of one image, or a file (with a slash, or .sif at its end)")
	}
	if name := names[0]; strings.HasSuffix(name, ".sif") || strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") {
		return c.checkFile(name)
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	i, err := u.Image(c.ctx, names[0])
	if err != nil {
		return c.failErr(err)
	}
	if i.File != "" {
		return c.fail("bimage: " + show.Clean(i.Name) + " is a file on the nodes, " + show.Clean(i.File) + ": check it there")
	}
	var last *pb.ImageProgress
	if err := u.VerifyImage(c.ctx, i.Name, func(p *pb.ImageProgress) error { last = p; return nil }); err != nil {
		return c.failErr(err)
	}
	c.write(show.ImageLong(nil, i, &c.style))
	for _, n := range last.GetNotes() {
		c.print("Check:         " + show.Clean(n) + "\n")
	}
	return 0
}

func (c *call) checkFile(name string) int {
	path := c.path(name)
	if err := apptainer.CheckImage(path); err != nil {
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	f, err := os.Open(path)
	if err != nil {
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	line := func(title, text string) {
		if text != "" {
			c.write(append(append(append(show.Left(nil, title+":", 14), ' '), show.Clean(text)...), '\n'))
		}
	}
	line("File", name)
	line("Digest", string(images.DigestOf(sum.Sum(nil))))
	line("Size", fmt.Sprintf("%s (%d bytes)", show.Size(size), size))
	program, err := exec.LookPath("apptainer")
	if err != nil {
		c.say("Note: there is no apptainer on this host: labels and programs were not looked at")
		return 0
	}
	labels, err := c.labelsOf(program, path)
	if err != nil {
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	show.LabelLines(labels, line)
	if _, err := images.ParseLabels(labels); err != nil {
		return c.fail("bimage: " + show.Clean(name) + " would not be taken: " + show.CleanText(err.Error()))
	}
	line("GPU fraction", c.fenceable(program, path))
	return 0
}

// labelsOf asks Apptainer.
func (c *call) labelsOf(program, path string) (map[string]string, error) {
	cmd := exec.CommandContext(c.ctx, program, "inspect", "--json", "--labels", path)
	cmd.Env = c.env.Environ
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("apptainer inspect %s: %w", path, err)
	}
	var d struct {
		Data struct {
			Attributes struct {
				Labels map[string]string `json:"labels"`
			} `json:"attributes"`
		} `json:"data"`
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return nil, fmt.Errorf("apptainer inspect %s: %w", path, err)
	}
	return d.Data.Attributes.Labels, nil
}

// fenceable says whether the image's programs can be fenced: that needs the loader of the GNU C library. Whether the fence holds is
// proven when a job starts.
func (c *call) fenceable(program, path string) string {
	cmd := exec.CommandContext(c.ctx, program, "exec", "--contain", "--no-home", path, "/bin/sh", "-c", "for f in /lib*/ld-linux-*.so.* /lib/*/ld-linux-*.so.*; do test -e $f && echo there; done; true")
	cmd.Env, cmd.Dir = c.env.Environ, "/"
	out, err := cmd.Output()
	switch {
	case err != nil:
		return "not known: no shell could be run in it"
	case !strings.Contains(string(out), "there"):
		return "no: it has no GNU C library, so its programs cannot be fenced; whole GPUs only"
	}
	return "yes: it has the GNU C library"
}
