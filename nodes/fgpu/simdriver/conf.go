package simdriver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// ConfName is the file beside the libraries that says what hardware they simulate. Where it is, the environment says
// nothing: a job must not change its node's hardware.
const ConfName = "simulated.conf"

const (
	confSize  = 64 << 10
	valueSize = 4095
)

var confNames = []string{GPUsVar, NodeVar, StateVar, MIGVar, ContextVar, BlockVar, CUDAVar}

// Conf is what simulated.conf says, in the texts of the variables. GPUs is required, the others have defaults.
type Conf struct {
	GPUs    string // COUNTxSIZE
	Node    string
	State   string // an absolute path, as the processes that load the libraries see it
	MIG     string
	Context string
	Block   string
	CUDA    string
}

func (c *Conf) fields() []*string {
	return []*string{&c.GPUs, &c.Node, &c.State, &c.MIG, &c.Context, &c.Block, &c.CUDA} // in the order of confNames
}

// ParseConf reads the text of a simulated.conf: lines NAME=value, empty lines, and lines that begin with #. Each name
// is there at most once, and FAIRSLICE_SIM_GPUS always; values are printable ASCII. The error names the line.
// The driver reads the same grammar (conf.c): change both.
func ParseConf(text []byte) (Conf, error) {
	var c Conf
	if len(text) > confSize {
		return Conf{}, fmt.Errorf("%s: longer than %d bytes", ConfName, confSize)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if err := c.readLine(line); err != nil {
			return Conf{}, fmt.Errorf("%s, line %d: %w", ConfName, i+1, err)
		}
	}
	if err := c.check(); err != nil {
		return Conf{}, fmt.Errorf("%s: %w", ConfName, err)
	}
	return c, nil
}

func (c *Conf) readLine(line string) error {
	for i := 0; i < len(line); i++ {
		if line[i] < 0x20 || line[i] > 0x7e {
			return errors.New("only printable ASCII is allowed")
		}
	}
	if line == "" || line[0] == '#' {
		return nil
	}
	name, value, found := strings.Cut(line, "=")
	for i, field := range c.fields() {
		if !found || confNames[i] != name {
			continue
		}
		if *field != "" {
			return fmt.Errorf("%s is there twice", name)
		}
		if value == "" || len(value) > valueSize {
			return fmt.Errorf("%s: a value has 1 to %d characters", name, valueSize)
		}
		*field = value
		return nil
	}
	return fmt.Errorf("%.60q is not NAME=value with one of the names %s", line, strings.Join(confNames, ", "))
}

func (c *Conf) check() error {
	if _, _, err := ParseSpec(c.GPUs); err != nil {
		return err
	}
	if c.Context != "" && !isSize(c.Context) {
		return fmt.Errorf("%s=%s: want 0, or a size such as 64MiB", ContextVar, c.Context)
	}
	if n, rest, ok := number(c.Block); c.Block != "" && (!ok || rest != "" || n == 0) {
		return fmt.Errorf("%s=%s: want 1 to 999999999 nanoseconds", BlockVar, c.Block)
	}
	if n, rest, ok := number(c.CUDA); c.CUDA != "" && (!ok || rest != "" || n < 9000 || n > 99990 || n%10 != 0) {
		return fmt.Errorf("%s=%s: want 1000*major + 10*minor, such as 13000 or 11030", CUDAVar, c.CUDA)
	}
	if c.State != "" && !path.IsAbs(c.State) {
		return fmt.Errorf("%s=%s: want an absolute path", StateVar, c.State)
	}
	return nil
}

// isSize: as in sim_parse_size of spec.c.
func isSize(s string) bool {
	if s == "0" {
		return true
	}
	mib, unit, ok := number(s)
	if !ok {
		return false
	}
	switch lowered(unit) {
	case "g", "gb", "gib":
		mib *= 1024
	case "m", "mb", "mib":
	default:
		return false
	}
	return mib <= maxMiB
}

// String is the text of the file.
func (c Conf) String() string {
	var text strings.Builder
	text.WriteString("# The simulated hardware of this node.\n")
	for i, field := range c.fields() {
		if *field != "" {
			fmt.Fprintf(&text, "%s=%s\n", confNames[i], *field)
		}
	}
	return text.String()
}

// WriteConf writes simulated.conf into dir, where the libraries lie or will lie, and replaces an older one: they
// then simulate spec's GPUs as those of the named node, whatever the environment says. stateDir is the directory
// of the node's state as the processes that load the libraries see it; "" for none. more sets other variables.
func WriteConf(dir, spec, node, stateDir string, more ...func(*Conf)) error {
	c := Conf{GPUs: spec, Node: node, State: stateDir}
	for _, set := range more {
		set(&c)
	}
	text := []byte(c.String())
	read, err := ParseConf(text) // what would not come back as it was is refused here, not by the driver later
	if err == nil && read != c {
		err = errors.New("a value has a line's end in it")
	}
	if err == nil && c.MIG != "" {
		count, size, _ := ParseSpec(c.GPUs)
		_, err = ParseMIG(c.MIG, count, size)
	}
	if err != nil {
		return fmt.Errorf("write the simulated hardware of node %s: %w", strconv.Quote(node), err)
	}
	name := filepath.Join(dir, ConfName)
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, text) {
		return nil
	}
	f, err := os.CreateTemp(dir, "."+ConfName+"-")
	if err != nil {
		return fmt.Errorf("write the simulated hardware of node %s: %w", strconv.Quote(node), err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write the simulated hardware of node %s: %w", strconv.Quote(node), err)
	}
	return nil
}
