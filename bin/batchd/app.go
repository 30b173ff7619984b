package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"fairslice/api"
	"fairslice/etc"
)

// version is set by the Makefile.
var version = "0.1.0"

const defaultConfig = "/etc/fairslice/fairslice.toml"

func app() *cli.App {
	config := &cli.StringFlag{Name: "config", Value: defaultConfig, Usage: "configuration `FILE`"}
	return &cli.App{
		Name: "batchd", Usage: "the Fairslice batch daemon", Version: version, HideHelpCommand: true,
		Flags: []cli.Flag{config},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("unknown command %q; try batchd --help", c.Args().First())
			}
			reload := func() (*etc.Config, error) { return etc.Load(c.String("config")) }
			cfg, err := reload()
			if err != nil {
				return err
			}
			return serve(c.Context, cfg, reload, newLogger(cfg.LogLevel))
		},
		Commands: []*cli.Command{checkCommand(config), devCommand(), tokenCommand(config)},
	}
}

func newLogger(level string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // the configuration has been validated
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l}))
}

func checkCommand(config cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "validate a configuration and list every mistake", ArgsUsage: "[FILE]",
		Flags: []cli.Flag{config},
		Action: func(c *cli.Context) error {
			file := c.String("config")
			if c.Args().Present() {
				file = c.Args().First()
			}
			cfg, err := etc.Load(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "%s is valid: cluster %s, %d queue(s), default queue %s\n",
				file, cfg.Cluster, len(cfg.Queues), cfg.DefaultQueue)
			return nil
		},
	}
}

func tokenCommand(config cli.Flag) *cli.Command {
	life := &cli.DurationFlag{Name: "life", Value: 365 * 24 * time.Hour, Usage: "how long it is valid"}
	create := func(kind api.TokenKind) cli.ActionFunc {
		return func(c *cli.Context) error {
			if c.NArg() != 1 {
				return fmt.Errorf("want one name; try batchd token --help")
			}
			cfg, err := etc.Load(c.String("config"))
			if err != nil {
				return err
			}
			tokens, err := api.OpenTokens(tokenFile(cfg), time.Now)
			if err != nil {
				return err
			}
			t, err := tokens.Create(kind, c.Args().First(), c.Duration("life"))
			if err == nil {
				fmt.Fprintln(c.App.Writer, t)
			}
			return err
		}
	}
	return &cli.Command{
		Name: "token", Usage: "make the secret with which a node or a user on another machine is known",
		Subcommands: []*cli.Command{
			{Name: "node", Usage: "for a node to join with", ArgsUsage: "NODE", Flags: []cli.Flag{config, life}, Action: create(api.NodeToken)},
			{Name: "user", Usage: "for a user of this machine's name service", ArgsUsage: "USER", Flags: []cli.Flag{config, life}, Action: create(api.UserToken)},
		},
	}
}
