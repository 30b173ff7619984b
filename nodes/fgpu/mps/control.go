package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoDaemon: no control daemon answers in the pipe directory.
var ErrNoDaemon = errors.New("no MPS control daemon answers")

// Server is the process through which a user's clients share the GPU.
type Server struct {
	Pid     int
	Status  Status
	Clients []int // process ids
}

// Servers asks the daemon for its servers, at most one with the daemons of today. None is normal: the first client
// starts it. A server that ends while it is asked about is left out.
func (d *Daemon) Servers(ctx context.Context) ([]Server, error) {
	pids, err := d.serverList(ctx)
	if err != nil {
		return nil, err
	}
	var list []Server
	for _, pid := range pids {
		server, err := d.server(ctx, pid)
		if err == nil {
			list = append(list, server)
			continue
		}
		if now, errNow := d.serverList(ctx); errNow != nil || slices.Contains(now, pid) {
			return nil, err
		}
	}
	return list, nil
}

func (d *Daemon) serverList(ctx context.Context) ([]int, error) {
	text, err := d.ask(ctx, "get_server_list")
	if err != nil {
		return nil, err
	}
	return inAnswer(d, ParsePids, text)
}

func (d *Daemon) server(ctx context.Context, pid int) (Server, error) {
	s := Server{Pid: pid}
	text, err := d.ask(ctx, "get_server_status "+strconv.Itoa(pid))
	if err != nil {
		return s, err
	}
	if s.Status, err = inAnswer(d, ParseStatus, text); err != nil {
		return s, err
	}
	if text, err = d.ask(ctx, "get_client_list "+strconv.Itoa(pid)); err != nil {
		return s, err
	}
	s.Clients, err = inAnswer(d, ParsePids, text)
	return s, err
}

func inAnswer[T any](d *Daemon, parse func(string) (T, error), text string) (T, error) {
	value, err := parse(text)
	if err != nil {
		err = fmt.Errorf("MPS of GPU %s: answer of the control daemon: %w", d.config.UUID, err)
	}
	return value, err
}

// SetDefaultPercentage caps the share of the GPU's SMs, in percent above 0 and up to 100, that a client of the next
// server may have, whatever its environment says. A server that runs keeps what it has.
func (d *Daemon) SetDefaultPercentage(ctx context.Context, percent float64) error {
	if !(percent > 0 && percent <= 100) {
		return fmt.Errorf("MPS of GPU %s: a share of %v percent: want above 0, up to 100", d.config.UUID, percent)
	}
	value := strconv.FormatFloat(percent, 'f', -1, 64)
	return d.set(ctx, "set_default_active_thread_percentage", "set_default_active_thread_percentage "+value)
}

// SetDefaultMemory caps what a client of the next server may hold, in bytes, rounded down to MiB, contexts included.
func (d *Daemon) SetDefaultMemory(ctx context.Context, limit int64) error {
	mib := limit >> 20
	if mib <= 0 {
		return fmt.Errorf("MPS of GPU %s: a limit of %d bytes: want 1 MiB or more", d.config.UUID, limit)
	}
	return d.set(ctx, "set_default_device_pinned_mem_limit", fmt.Sprintf("set_default_device_pinned_mem_limit %s %dM", d.config.UUID, mib))
}

// set gives a command whose effect a new daemon must have again. The answer to it is nothing, or the value.
func (d *Daemon) set(ctx context.Context, key, command string) error {
	d.mu.Lock()
	d.settings[key] = command
	d.mu.Unlock()
	return d.tell(ctx, command)
}

func (d *Daemon) tell(ctx context.Context, command string) error {
	text, err := d.ask(ctx, command)
	if err != nil {
		return err
	}
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	if _, err := ParsePercentage(text); err != nil {
		return fmt.Errorf("MPS of GPU %s: %s: the daemon says %q", d.config.UUID, command, clip(text))
	}
	return nil
}

// ask runs the control program as a client with one command, and returns what it prints.
func (d *Daemon) ask(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.config.Binary)
	cmd.Env = d.environment()
	cmd.Stdin = strings.NewReader(command + "\n")
	cmd.WaitDelay = time.Second
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("MPS of GPU %s: %s: %w", d.config.UUID, command, ctx.Err())
	}
	if err == nil {
		return out.String(), nil
	}
	said := clip(strings.TrimSpace(out.String() + " " + problem.String()))
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(said, "Cannot find MPS control daemon") {
		return "", fmt.Errorf("MPS of GPU %s: %w in %s", d.config.UUID, ErrNoDaemon, d.config.PipeDir)
	}
	return "", fmt.Errorf("MPS of GPU %s: %s: %w: %s", d.config.UUID, command, err, said)
}
