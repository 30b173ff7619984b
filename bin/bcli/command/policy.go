package command

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairslice/accounting"
	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

// policyHelp is the part of badmin's help about accounts.
const policyHelp = "\naccount add NAME [parent=NAME] [shares=N] [description=TEXT]\n" +
	"account mod NAME [name=NEW] [parent=NAME] [shares=N] [description=TEXT]\n" +
	"account rm NAME                    only one that nothing is in\n" +
	"account load FILE                  replace the whole policy by a file's (- is standard input)\n" +
	"user add NAME account=NAME [shares=N] [default]\n" +
	"user rm NAME [account=NAME]        its jobs go on\n" +
	"user default NAME account=NAME\n" +
	"share set account=NAME [user=NAME] shares=N\n" +
	"limit set SCOPE [running=N] [pending=N] [slots=N] [memory=SIZE] [fgpu=X] [sessions=N]\n" +
	"                [wall=DURATION] [rate=N/m]\n" +
	"limit rm SCOPE\n" +
	"budget set account=NAME fgpu_hours=X|gpu_hours=X period=month|quarter|until:DATE\n" +
	"           [from=DATE] hard|soft\n" +
	"budget rm account=NAME [fgpu_hours|gpu_hours]\n" +
	"limit show, budget show, policy show   what is in force, as a file would have it\n" +
	"policy log [N]                     who changed what, and when, newest first\n" +
	"\nA SCOPE is user=NAME, account=NAME, queue=NAME, image=REF, all or each-user. An array counts by\n" +
	"its elements, in a rate it is one submission. -n with any change shows what it would do.\n" +
	"Under a hard budget jobs wait when it is spent or reserved, and need a run limit for GPUs; when\n" +
	"a soft one is spent they come after all others. bbudget shows what is left.\n"

// policyCommands are badmin's words about the policy: each changes what is in force and sends it back whole.
var policyCommands = map[string]func(p *accounting.Policy, words []string) (*accounting.Policy, error){
	"account add":  addAccount,
	"account mod":  modAccount,
	"account rm":   removeAccount,
	"user add":     addMember,
	"user rm":      removeMember,
	"user default": setDefault,
	"share set":    setShares,
	"limit set":    setLimit,
	"limit rm":     removeLimit,
	"budget set":   setBudget,
	"budget rm":    removeBudget,
}

// isPolicyWord says that badmin's first word is about the policy.
func isPolicyWord(word string) bool {
	return slices.Contains([]string{"account", "user", "share", "limit", "budget", "policy"}, word)
}

// policy runs badmin account, user, share, limit, budget and policy.
func (c *call) policy(p *option.Parsed) int {
	if len(p.Operands) < 2 {
		return c.fail("badmin: " + p.Operands[0] + ": what to do? (badmin -h lists it)")
	}
	what, words := p.Operands[0]+" "+p.Operands[1], p.Operands[2:]
	edit, known := policyCommands[what]
	switch {
	case what == "account load":
		return c.loadPolicy(p, words)
	case what == "policy log":
		return c.policyLog(p, words)
	case strings.HasSuffix(what, " show") && what != "user show" && what != "share show":
		return c.showPolicy(p, words)
	case !known:
		return c.fail("badmin: " + show.Clean(what) + ": no such command (badmin -h lists them)")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	now, err := u.Policy(c.ctx)
	if err != nil {
		return c.failErr(err)
	}
	policy, err := accounting.ParsePolicy(now.Text)
	if err != nil {
		return c.fail("badmin: the policy in force is of another version of this program: " + show.CleanText(err.Error()))
	}
	next, err := edit(policy, words)
	if err != nil {
		return c.fail("badmin: " + show.CleanText(err.Error()))
	}
	return c.setPolicy(u, queue.PolicyChange{Base: now.Version, Text: next.String(), DryRun: p.Has("n")})
}

// setPolicy sends the policy and prints what it changed.
func (c *call) setPolicy(u Users, change queue.PolicyChange) int {
	out, err := u.SetPolicy(c.ctx, change)
	if err != nil {
		return c.failErr(err)
	}
	for _, line := range out.Diff {
		c.print(show.Clean(line) + "\n")
	}
	switch {
	case len(out.Diff) == 0:
		c.print(fmt.Sprintf("Nothing is different: version %d of the policy stays in force.\n", out.Version))
	case change.DryRun:
		c.print(fmt.Sprintf("Nothing was changed (-n): version %d of the policy stays in force.\n", out.Version))
	default:
		c.print(fmt.Sprintf("Version %d of the policy is in force.\n", out.Version))
	}
	return 0
}

// fileVersion is the first line of what policy show prints.
var fileVersion = regexp.MustCompile(`^# version ([0-9]{1,18})\b`)

// loadPolicy takes a file as the policy. One that policy show has printed says which version it was made from, so that
// nobody undoes, unseen, what another has changed meanwhile; -f does it all the same.
func (c *call) loadPolicy(p *option.Parsed, words []string) int {
	if len(words) != 1 {
		return c.fail("badmin: account load needs the name of one file, or - for standard input")
	}
	text, err := c.readPolicy(words[0])
	if err != nil {
		return c.fail("badmin: " + show.CleanText(err.Error()))
	}
	if _, err := accounting.ParsePolicy(text); err != nil {
		return c.fail("badmin: " + show.Clean(words[0]) + ": nothing was changed:\n" + show.CleanText(err.Error()))
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	now, err := u.Policy(c.ctx)
	if err != nil {
		return c.failErr(err)
	}
	change := queue.PolicyChange{Base: now.Version, Text: text, DryRun: p.Has("n")}
	if m := fileVersion.FindStringSubmatch(text); m != nil && !p.Has("f") {
		change.Base, _ = strconv.ParseInt(m[1], 10, 64) // 18 digits fit
	}
	return c.setPolicy(u, change)
}

func (c *call) readPolicy(name string) (string, error) {
	r := c.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, accounting.MaxPolicyText+1)) // ParsePolicy refuses what is longer
	return string(data), err
}

// showPolicy prints what is in force, or the lines of one kind.
func (c *call) showPolicy(p *option.Parsed, words []string) int {
	kind := p.Operands[0]
	if len(words) > 0 {
		return c.fail("badmin: " + kind + " show takes no more words")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	now, err := u.Policy(c.ctx)
	if err != nil {
		return c.failErr(err)
	}
	var lines []string
	for line := range strings.Lines(now.Text) {
		line = strings.TrimSuffix(line, "\n")
		if kind == "policy" || strings.HasPrefix(line, kind+" ") || kind == "account" && strings.HasPrefix(line, "user ") {
			lines = append(lines, line)
		}
	}
	if p.Has("json") {
		return c.document("ITEMS", nil, len(lines), func(doc *show.JSON, i int) {
			item, _, _ := strings.Cut(lines[i], " ")
			doc.Open()
			doc.String("ITEM", item)
			doc.String("TEXT", lines[i])
			doc.String("VERSION", strconv.FormatInt(now.Version, 10))
			doc.Close()
		})
	}
	if kind == "policy" {
		c.print(c.versionLine(now))
	}
	for _, line := range lines {
		c.print(show.Clean(line) + "\n")
	}
	if len(lines) == 0 && kind != "policy" {
		c.say("No " + kind + " found")
	}
	if kind == "policy" || kind == "limit" {
		return c.noteUnknown(u, now.Text)
	}
	return 0
}

// noteUnknown marks the limits that count nothing, because the configuration has lost their queue or image.
func (c *call) noteUnknown(u Users, text string) int {
	policy, err := accounting.ParsePolicy(text)
	if err != nil {
		return 0
	}
	named := policy.Unknown(nil, nil)
	names := func(kind accounting.ScopeKind) bool {
		return slices.ContainsFunc(named, func(s accounting.Scope) bool { return s.Kind == kind })
	}
	var queues, images []string
	seesAll := false
	if names(accounting.ForImage) {
		// Only administrators see all images; who does not cannot tell what is gone from what is another's.
		list, err := u.Images(c.ctx, true)
		seesAll = err == nil
		for _, i := range list {
			images = append(images, i.GetName())
		}
	}
	if names(accounting.ForQueue) {
		listed, err := u.Queues(c.ctx, &pb.QueuesRequest{})
		if err != nil {
			return c.failErr(err)
		}
		for _, q := range listed.GetQueues() {
			queues = append(queues, q.GetName())
		}
	}
	for _, s := range policy.Unknown(queues, images) {
		if s.Kind == accounting.ForImage && !seesAll {
			continue
		}
		c.say("Note: limit " + show.Clean(s.String()) + ": there is no such " + string(s.Kind) + " any more, and so it limits nothing")
	}
	return 0
}

func (c *call) versionLine(s queue.PolicyState) string {
	if s.Version == 0 {
		return "# version 0: none was ever set\n"
	}
	return fmt.Sprintf("# version %d, set by %s at %s\n", s.Version, show.Clean(s.By), s.At.In(c.location()).Format("2006-01-02 15:04:05"))
}

// policyLog prints the audit: who, when, and before and after of each item.
func (c *call) policyLog(p *option.Parsed, words []string) int {
	limit := 0
	if len(words) > 0 {
		if limit = number(words[0]); limit < 1 || len(words) > 1 {
			return c.fail("badmin: policy log " + show.Clean(strings.Join(words, " ")) + ": want how many changes, a number from 1, or nothing")
		}
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	list, err := u.PolicyLog(c.ctx, limit)
	if err != nil {
		return c.failErr(err)
	}
	if p.Has("json") {
		return c.document("CHANGES", nil, len(list), func(doc *show.JSON, i int) {
			e := &list[i]
			doc.Open()
			doc.String("VERSION", strconv.FormatInt(e.Version, 10))
			doc.String("USER", e.By)
			doc.String("TIME", e.At.In(c.location()).Format("2006-01-02 15:04:05"))
			doc.List("DIFFERENCES", e.Diff)
			doc.String("TEXT", e.Text)
			doc.Close()
		})
	}
	for i := range list {
		e := &list[i]
		c.print(fmt.Sprintf("%s  %s  version %d\n", e.At.In(c.location()).Format("2006-01-02 15:04:05"), show.Clean(e.By), e.Version))
		for _, line := range e.Diff {
			c.print("    " + show.Clean(line) + "\n")
		}
	}
	if len(list) == 0 {
		c.say("No change found")
	}
	return 0
}

func (c *call) location() *time.Location {
	if c.env.Loc != nil {
		return c.env.Loc
	}
	return time.Local
}

// sitePolicy connects, and reads the policy in force. A code other than 0 is the command's, which has said why.
func (c *call) sitePolicy(command string) (u Users, policy *accounting.Policy, code int) {
	u, ok := c.connect()
	if !ok {
		return nil, nil, failed
	}
	state, err := u.Policy(c.ctx)
	if err != nil {
		return nil, nil, c.failErr(err)
	}
	if policy, err = accounting.ParsePolicy(state.Text); err != nil {
		return nil, nil, c.fail(command + ": the policy of the daemon is not understood: " + show.CleanText(err.Error()))
	}
	return u, policy, 0
}
