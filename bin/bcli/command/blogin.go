package command

import (
	"time"

	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bloginCommand() *command {
	return &command{run: blogin, Command: option.Command{
		Name: "blogin", Usage: "",
		Summary: "prints a link that logs you in to the web page: once, and within two minutes",
		Example: "blogin\nxdg-open \"$(blogin)\"",
	}}
}

// blogin prints nothing but the link on standard output, for scripts.
func blogin(c *call, p *option.Parsed) int {
	if len(p.Operands) > 0 {
		return c.fail("blogin: it takes no arguments: the link is for who runs it")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	link, err := u.Login(c.ctx)
	if err != nil {
		return c.failErr(err)
	}
	c.print(show.Clean(link.Url) + "\n")
	c.say("Open it in a browser within " + show.Span(time.Duration(link.Valid)) + ". Whoever opens it first is logged in as you.")
	return 0
}
