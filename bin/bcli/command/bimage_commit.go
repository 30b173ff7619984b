package command

import (
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func commitSession(c *call, p *option.Parsed, names []string) int {
	if len(names) != 2 {
		return c.fail("bimage: commit needs a running session and the name of the image to be: bimage commit 1234 tools:2")
	}
	if !c.legal(names[:1]) {
		return failed
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	r, err := u.RequestCommit(c.ctx, &pb.CommitRequest{Job: names[0], Name: names[1], Description: p.Last("d"), Replace: p.Has("f")})
	if err != nil {
		return c.failErr(err)
	}
	c.print(show.CleanText(upper(r.Words)) + ".\n")
	c.say("What is outside of the image is left out: home and working directories, and what is mounted. bimage commits shows how far it is.")
	return 0
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func listCommits(c *call, p *option.Parsed, names []string) int {
	if len(names) > 0 {
		return c.fail("bimage: commits takes no names")
	}
	return c.commits(p, p.Has("all"))
}

func (c *call) commits(p *option.Parsed, all bool) int {
	u, ok := c.connect()
	if !ok {
		return failed
	}
	list, err := u.Commits(c.ctx, all)
	if err != nil {
		return c.failErr(err)
	}
	if p.Has("json") {
		return c.document("COMMITS", nil, len(list), func(doc *show.JSON, i int) { show.CommitRecord(doc, list[i], &c.style) })
	}
	if len(list) == 0 {
		c.say("No request found")
		return 0
	}
	c.write(show.Commits(nil, list, !p.Has("noheader"), &c.style))
	return 0
}

// commitsHelp is the part of badmin's help about sessions that become images.
const commitsHelp = "commits                            requests to make images of sessions (bimage commit)\n" +
	"commits approve|refuse ID [REASON] decide one; its user sees the reason\n"

// decideCommit runs badmin commits.
func (c *call) decideCommit(p *option.Parsed, words []string) int {
	if len(words) == 0 {
		return c.commits(p, true)
	}
	if len(words) < 2 || words[0] != "approve" && words[0] != "refuse" {
		return c.fail("badmin: commits " + show.Clean(strings.Join(words, " ")) + ": want approve or refuse, and the number of a request")
	}
	id, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || id < 1 {
		return c.fail("badmin: commits: " + show.Clean(words[1]) + ": want the number of a request (badmin commits lists them)")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	r, err := u.DecideCommit(c.ctx, &pb.DecideCommitRequest{Id: id, Approve: words[0] == "approve", Reason: strings.Join(words[2:], " ")})
	if err != nil {
		return c.failErr(err)
	}
	c.print(show.CleanText(upper(r.Words)) + ".\n")
	return 0
}
