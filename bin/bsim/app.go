package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/urfave/cli/v2"
)

// version is set by the Makefile.
var version = "0.1.0"

// Exit codes.
const (
	ok     = 0
	failed = 1
	usage  = 2
)

// usageError is a mistake in what was typed.
type usageError struct{ error }

// wrong says what is wrong with an option.
func wrong(option string, value any, allowed string) error {
	return usageError{fmt.Errorf("--%s %v: allowed is %s", option, value, allowed)}
}

// run is the program: results go to stdout, words for people to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := app(stdout, stderr).RunContext(ctx, args)
	if err == nil {
		return ok
	}
	fmt.Fprintln(stderr, "bsim:", err)
	if errors.As(err, &usageError{}) {
		fmt.Fprintln(stderr, "bsim: try bsim --help, or bsim COMMAND --help")
		return usage
	}
	return failed
}

func app(stdout, stderr io.Writer) *cli.App {
	commands := []*cli.Command{replayCommand(), placeCommand(), historyCommand()}
	for _, c := range commands {
		c.OnUsageError = asUsageError
		c.HideHelpCommand = true
		act := c.Action
		c.Action = func(ctx *cli.Context) error {
			if ctx.Args().Present() {
				return usageError{fmt.Errorf("%s: what is %q? It takes options only, and they come first", ctx.Command.Name, ctx.Args().First())}
			}
			return act(ctx)
		}
	}
	return &cli.App{
		Name: "bsim", Usage: "replay workloads under a scheduling policy", Version: version, HideHelpCommand: true,
		Writer: stdout, ErrWriter: stderr, ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: asUsageError,
		Description: "Options may be written with one dash or two. Results go to standard output, words for people to standard error.\n" +
			"Exit status: 0 done, 1 failed, 2 not understood.",
		Commands: commands,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{fmt.Errorf("unknown command %q: allowed are replay, place and history", c.Args().First())}
			}
			return usageError{errors.New("which command? Allowed are replay, place and history")}
		},
	}
}

func asUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }

// require says which of some options is missing. cli.Flag's own Required would print the whole help.
func require(c *cli.Context, options ...string) error {
	for _, name := range options {
		if !c.IsSet(name) {
			return usageError{fmt.Errorf("%s: --%s is missing", c.Command.Name, name)}
		}
	}
	return nil
}

// whole reads an option that is a whole number; 0 where it is not given and has no default.
func whole(c *cli.Context, option string, least, most int64) (int64, error) {
	if !c.IsSet(option) && c.String(option) == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.String(option), 10, 64)
	if err != nil || n < least || n > most {
		return 0, wrong(option, c.String(option), fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n, nil
}

// decimal reads an option that is a number above 0; 0 where it is not given and has no default.
func decimal(c *cli.Context, option string, most float64) (float64, error) {
	if !c.IsSet(option) && c.String(option) == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(c.String(option), 64)
	if err != nil || !(f > 0 && f <= most) {
		return 0, wrong(option, c.String(option), fmt.Sprintf("a number above 0 and at most %g", most))
	}
	return f, nil
}
