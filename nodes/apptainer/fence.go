package apptainer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// Fence asks enter to prove, before the job's first instruction, that the fence of its GPU slices is in place: it runs a probe
// in the container and writes down what came of it, for ReadProof.
type Fence struct {
	Probe   string // a program in the container, loaded by its C library as the job's programs are; "" asks for no proof
	Library string // what must be preloaded there
	Result  string // the file that gets the proof, as seen in the container
	// Optional starts the job also where the image can have no fence; see ImageCannot.
	Optional bool
}

// Proof says what the probe found.
type Proof string

// The proofs.
const (
	Proven      Proof = "proven"
	ImageCannot Proof = "image"  // the image has no C library, or one that does not load the fence: no node can fence it
	Broken      Proof = "broken" // the fence is not as the node has to set it up
)

// preloadFile is read by the GNU C library's loader for every program, whatever its environment.
const preloadFile = "/etc/ld.so.preload"

// prove runs the probe and writes the result; it returns an error when the job must not start.
func (f Fence) prove(unfit func() string) error {
	proof, reason := ImageCannot, unfit()
	if reason == "" {
		proof, reason = f.probe()
	}
	text := string(proof) + "\n" + reason
	// Whole or not at all: the node daemon looks while we write.
	if err := os.WriteFile(f.Result+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("write down the proof of the fence: %w", err)
	}
	if err := os.Rename(f.Result+".new", f.Result); err != nil {
		return fmt.Errorf("write down the proof of the fence: %w", err)
	}
	if proof == Proven || proof == ImageCannot && f.Optional {
		return nil
	}
	return errors.New(reason)
}

func (f Fence) probe() (Proof, string) {
	var out, problems bytes.Buffer
	cmd := exec.Command(f.Probe)
	// Nothing of the job's environment: what holds now holds for "env -i" too.
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{}, &out, &problems
	err := cmd.Run()
	if err == nil {
		return Proven, ""
	}
	if _, missing := os.Stat(f.Probe); missing != nil {
		return Broken, "the probe of the fence is not in the container: " + missing.Error()
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return ImageCannot, "the image has no GNU C library, so its programs cannot be fenced"
	}
	preloaded, readErr := os.ReadFile(preloadFile)
	if readErr != nil || strings.TrimSpace(string(preloaded)) != f.Library {
		return Broken, preloadFile + " in the container does not name " + f.Library
	}
	said := firstLine(out.String())
	// The library needs a C library of 2012 only, but there are older images.
	if strings.Contains(problems.String(), "version `GLIBC_") {
		return ImageCannot, "the image's C library does not load the fence: " + firstLine(problems.String())
	}
	if said == "" {
		said = firstLine(problems.String())
	}
	return Broken, strings.TrimSpace("the probe of the fence failed: " + said + " (" + err.Error() + ")")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// ParseProof reads what enter wrote to Fence.Result. A text that it did not write is Broken, and says so.
func ParseProof(text string) (Proof, string) {
	word, reason, ok := strings.Cut(text, "\n")
	switch p := Proof(word); p {
	case Proven, ImageCannot, Broken:
		if ok {
			return p, reason
		}
	}
	return Broken, fmt.Sprintf("the proof of the fence is no proof: %.40q", text)
}
