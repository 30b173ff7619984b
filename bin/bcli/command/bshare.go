package command

import (
	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bshareCommand() *command {
	return &command{run: bshare, Command: option.Command{
		Name: "bshare", Usage: "[-w] [-json] [user user]",
		Summary: "prints the fair-share tree: shares, usage, whose turn it is, and why",
		Example: "bshare                  accounts and users, those first whose turn comes first\n" +
			"bshare ada bob          why one of them goes before the other\n" +
			"bshare ada chem/bob     bob's work for account chem",
		Options: []option.Option{optWide, optJSON, optNoHead},
	}}
}

func bshare(c *call, p *option.Parsed) int {
	if n := len(p.Operands); n != 0 && n != 2 {
		return c.fail("bshare: want no user for the tree, or two to compare, as in: bshare ada bob")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	s, err := u.Shares(c.ctx, p.Operands...)
	if err != nil {
		return c.failErr(err)
	}
	switch {
	case p.Has("json") && len(p.Operands) > 0:
		return c.document("WHY", nil, 1, func(doc *show.JSON, _ int) {
			doc.Open()
			doc.List("WHY", s.Why)
			doc.Close()
		})
	case p.Has("json"):
		return c.document("SHARES", nil, len(s.Tree), func(doc *show.JSON, i int) { show.ShareRecord(doc, s, s.Tree[i]) })
	case len(p.Operands) > 0:
		return c.why(s)
	}
	var b []byte
	if !p.Has("noheader") {
		b = show.ShareHead(b, s, &c.style)
	}
	for _, x := range s.Tree {
		b = show.ShareRow(b, x, p.Has("w"))
	}
	c.write(b)
	return 0
}

// why prints a comparison.
func (c *call) why(s *pb.SharesResponse) int {
	var b []byte
	for _, line := range s.Why {
		b = append(b, show.Clean(line)+"\n"...)
	}
	c.write(b)
	return 0
}
