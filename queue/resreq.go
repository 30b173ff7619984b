package queue

import (
	"fmt"
	"strings"
)

// ResReqOptions is what ParseResReq must know of the site.
type ResReqOptions struct {
	// Unit is what a bare number of mem, swp, tmp and gmem counts, in bytes (LSF_UNIT_FOR_LIMITS); 0 is MB.
	Unit        int64
	Consumables []string // resources with a quantity, for rusage and select
	Booleans    []string // resources that a host has or has not, for select
	// CheckOnly is BSUB_CHK_RESREQ: only syntax and names matter, nothing will be submitted, so
	// alternatives and compound requirements are accepted too, and give an empty result.
	CheckOnly bool
}

func (o ResReqOptions) unit() int64 {
	if o.Unit <= 0 {
		return mib
	}
	return o.Unit
}

const maxResReqLength = 64 << 10

// ParseResReq reads all -R strings of a submission and merges them as LSF does: select by &&, rusage
// name by name with the last value winning, the last order, span and affinity. Within one string the
// sections come in any order, each at most once, and text without a section name is select.
//
// Read and used: select, order, rusage[mem fgpu ngpus_physical gmem gmodel consumables],
// span[hosts=1 ptile=n], affinity[core(n)]. span[block=n] and span[stripe=n] are met by n a host, and kept as ptile.
//
// Read, checked, and without effect: rusage[swp tmp duration decay] and all but the largest of a list
// of phases, mem=(50 10); span[hosts=-1] (no queue has a span that it could cancel), ptile='!' and
// gtile; where affinity binds (same cpubind membind …: a job always gets its own CPUs); same (nodes
// of one type) and cu (there are no compute units).
//
// Alternatives {..} || {..} and compound requirements 1*{..} + 4*{..} are errors: they are not supported.
func ParseResReq(strs []string, opt ResReqOptions) (ResReq, error) {
	p := &resReqParser{opt: opt}
	total := 0
	for _, s := range strs {
		if total += len(s); total > maxResReqLength {
			return ResReq{}, fmt.Errorf("Bad resource requirement syntax: longer than %d bytes", maxResReqLength)
		}
		s = unquoteWhole(s)
		if holdsBrace(s) {
			if !opt.CheckOnly {
				return ResReq{}, fmt.Errorf("Bad resource requirement syntax: alternatives {..} || {..} and compound requirements 1*{..} + 4*{..} are not supported by this cluster")
			}
			if err := checkAlternatives(s, opt, 0); err != nil {
				return ResReq{}, err
			}
			continue
		}
		if err := p.read(s); err != nil {
			return ResReq{}, err
		}
	}
	if len(p.selects) > 0 {
		p.out.Select = Select(joinSelect(selAnd, p.selects).String())
		if len(p.out.Select) > maxSelectLength {
			return ResReq{}, selectError("longer than %d bytes", maxSelectLength)
		}
	}
	if p.exclusiveGPU && p.out.GPUMemory > 0 { // ResReq could not tell it from ngpus_physical with gmem, which asks for slices
		return ResReq{}, fmt.Errorf("Error in rusage section: ngpus_excl_p with gmem: write -gpu \"num=N:j_exclusive=yes:gmem=SIZE\"")
	}
	if _, err := p.out.gpuRequest(); err != nil {
		return ResReq{}, err
	}
	return p.out, nil
}

// CheckResReq is what BSUB_CHK_RESREQ asks for: nil when syntax and names of one -R are right.
func CheckResReq(s string, opt ResReqOptions) error {
	opt.CheckOnly = true
	_, err := ParseResReq([]string{s}, opt)
	return err
}

type resReqParser struct {
	opt     ResReqOptions
	out     ResReq
	selects []*selNode

	exclusiveGPU bool // ngpus_excl_p was used
}

// section is one name[body] of a -R string.
type section struct{ name, body string }

// resReqSections are the section names, with the reader of each.
var resReqSections = map[string]func(*resReqParser, string) error{
	"select": (*resReqParser).readSelect, "order": (*resReqParser).readOrder, "rusage": (*resReqParser).readRusage,
	"span": (*resReqParser).readSpan, "same": (*resReqParser).readSame, "cu": (*resReqParser).readCU,
	"affinity": (*resReqParser).readAffinity,
}

// read takes one -R string in.
func (p *resReqParser) read(s string) error {
	sections, err := splitSections(s)
	if err != nil {
		return fmt.Errorf("Bad resource requirement syntax: %w", err)
	}
	seen := map[string]bool{}
	for _, sec := range sections {
		reader, ok := resReqSections[sec.name]
		if !ok {
			return fmt.Errorf("Bad resource requirement syntax: no section %s[..]: want select order rusage span same cu affinity", quoteInput(sec.name))
		}
		if seen[sec.name] {
			return fmt.Errorf("Bad resource requirement syntax: %s: duplicate section in one -R; join them, or give -R twice", sec.name)
		}
		seen[sec.name] = true
		if err := reader(p, sec.body); err != nil {
			return err
		}
	}
	return nil
}

// splitSections cuts "swp>15 rusage[mem=1]" into select and rusage.
func splitSections(s string) ([]section, error) {
	var out []section
	start := 0 // of the text that belongs to no section yet
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\'':
			end := strings.IndexByte(s[i+1:], s[i])
			if end < 0 {
				return nil, fmt.Errorf("the quote at position %d is not closed", i+1)
			}
			i += end + 1
		case ']':
			return nil, fmt.Errorf("the \"]\" at position %d closes nothing", i+1)
		case '[':
			head := strings.TrimRight(s[start:i], " \t\r\n")
			bare := strings.TrimRight(head, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
			if bare == head {
				return nil, fmt.Errorf("the \"[\" at position %d follows no section name", i+1)
			}
			if b := strings.TrimSpace(bare); b != "" {
				out = append(out, section{"select", b})
			}
			end := closingBracket(s, i)
			if end < 0 {
				return nil, fmt.Errorf("the \"[\" at position %d is not closed", i+1)
			}
			out = append(out, section{head[len(bare):], s[i+1 : end]})
			i, start = end, end+1
		}
	}
	if b := strings.TrimSpace(s[start:]); b != "" {
		out = append(out, section{"select", b})
	}
	return out, nil
}

// closingBracket finds the "]" of the "[" at i, past quotes and inner brackets; -1 when there is none.
func closingBracket(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '"', '\'':
			end := strings.IndexByte(s[i+1:], s[i])
			if end < 0 {
				return -1
			}
			i += end + 1
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// splitOutside cuts s at each of the bytes of seps that is in no quotes and no parentheses, and trims
// the pieces.
func splitOutside(s, seps string) ([]string, error) {
	var out []string
	start, depth := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\'':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				return nil, fmt.Errorf("the quote in %s is not closed", quoteInput(s))
			}
			i += end + 1
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return nil, fmt.Errorf("a \")\" closes nothing in %s", quoteInput(s))
			}
		case depth == 0 && strings.IndexByte(seps, c) >= 0:
			out, start = append(out, strings.TrimSpace(s[start:i])), i+1
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("a \"(\" is not closed in %s", quoteInput(s))
	}
	return append(out, strings.TrimSpace(s[start:])), nil
}

func (p *resReqParser) readSelect(body string) error {
	n, err := parseSelect(body, p.opt.unit(), p.opt.kind)
	if err == nil {
		p.selects = append(p.selects, n)
	}
	return err
}

// holdsBrace says that s has a { outside quotes and brackets.
func holdsBrace(s string) bool {
	parts, err := splitOutside(s, "{")
	return strings.Contains(s, "{") && (err != nil || len(parts) > 1)
}

// checkAlternatives checks LSF's "[n*]{..}[@delay]", joined by || or +, without keeping anything.
func checkAlternatives(s string, opt ResReqOptions, depth int) error {
	const bad = "Bad resource requirement syntax: want {..} || {..} or 1*{..} + 4*{..}, got %s"
	rest := strings.TrimSpace(s)
	for {
		if head := strings.TrimLeft(rest, "0123456789"); head != rest {
			star, ok := strings.CutPrefix(strings.TrimSpace(head), "*")
			if !ok {
				return fmt.Errorf(bad, quoteInput(rest))
			}
			rest = strings.TrimSpace(star)
		}
		end := closingBrace(rest)
		if end < 0 || depth > maxDepth {
			return fmt.Errorf(bad, quoteInput(rest))
		}
		body := rest[1:end]
		var err error
		if holdsBrace(body) {
			err = checkAlternatives(body, opt, depth+1)
		} else {
			err = (&resReqParser{opt: opt}).read(body)
		}
		if err != nil {
			return err
		}
		rest = strings.TrimSpace(rest[end+1:])
		if delay, ok := strings.CutPrefix(rest, "@"); ok {
			after := strings.TrimLeft(delay, "0123456789")
			if after == delay {
				return fmt.Errorf(bad, quoteInput(rest))
			}
			rest = strings.TrimSpace(after)
		}
		if rest == "" {
			return nil
		}
		next, or := strings.CutPrefix(rest, "||")
		next, plus := strings.CutPrefix(next, "+")
		if or == plus {
			return fmt.Errorf(bad, quoteInput(rest))
		}
		rest = strings.TrimSpace(next)
	}
}

// closingBrace finds the "}" of the "{" that s begins with, or -1.
func closingBrace(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			if s[i] == '}' {
				return i
			}
			return -1
		}
	}
	return -1
}
