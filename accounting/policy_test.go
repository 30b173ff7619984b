package accounting

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const example = `# the physics department
account science description="All \"sciences\""
account physics parent=science shares=3
account chem    parent=science shares=1   # since 2026
account guests shares=0
user ada account=physics shares=2 default
user ada account=chem
user bob account=chem

limit all running=100000
limit each-user running=500 pending=10000 rate=100/m
limit user=ada slots=64 memory=512G fgpu=7.5 wall=1:30
limit account=physics fgpu=40 sessions=0
limit image=docker://nvcr.io/x:1 running=3
budget account=physics fgpu_hours=1000.5 period=month hard
budget account=chem gpu_hours=20 period=until:2028-02-29 from=2027-10-01 soft
`

const canonical = `account guests shares=0
account science shares=1 description="All \"sciences\""
account chem parent=science shares=1
account physics parent=science shares=3
user ada account=chem shares=1
user ada account=physics shares=2 default
user bob account=chem shares=1
limit all running=100000
limit each-user running=500 pending=10000 rate=100/m
limit user=ada slots=64 memory=512G fgpu=7.5 wall=90m
limit account=physics fgpu=40 sessions=0
limit image=docker://nvcr.io/x:1 running=3
budget account=chem gpu_hours=20 period=until:2028-02-29 from=2027-10-01 soft
budget account=physics fgpu_hours=1000.5 period=month hard
`

func TestPolicyText(t *testing.T) {
	p := mustPolicy(t, example)
	if got := p.String(); got != canonical {
		t.Errorf("got:\n%s\nwant:\n%s", got, canonical)
	}
	if q := mustPolicy(t, canonical); !q.equal(p) {
		t.Error("the canonical text is another policy")
	}
	l, _ := p.LimitOf(Scope{ForUser, "ada"})
	if l.Slots != 64 || l.Memory != 512<<30 || l.FGPU != 750 || l.Wall != 90*time.Minute || l.Running != NoLimit || l.Rate != NoLimit {
		t.Errorf("%+v", l)
	}
	if l, _ := p.LimitOf(Scope{ForAccount, "physics"}); l.Sessions != 0 {
		t.Errorf("a limit of 0 is %d", l.Sessions)
	}
	if got := p.Above("physics"); !slices.Equal(got, []string{"physics", "science", "root"}) {
		t.Errorf("above physics: %v", got)
	}
	if p.DefaultOf("ada") != "physics" || p.DefaultOf("bob") != "chem" || p.DefaultOf("eve") != "default" {
		t.Error(p.DefaultOf("ada"), p.DefaultOf("bob"), p.DefaultOf("eve"))
	}
	if !p.IsMember("ada", "chem") || p.IsMember("bob", "physics") || !p.IsMember("eve", "default") || p.IsMember("ada", "default") {
		t.Error("members")
	}
}

func TestAnEmptyPolicyIsFlat(t *testing.T) {
	for _, text := range []string{"", "\n\n# nothing\r\n", "limit all running=5"} {
		if p := mustPolicy(t, text); !p.Flat() || !p.IsMember("ada", "anything") {
			t.Errorf("%q is not flat", text)
		}
	}
	if p := mustPolicy(t, "user ada account=default shares=2"); p.Flat() {
		t.Error("shares of users are flat")
	}
}

func TestMistakesOfAPolicy(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"acount physics", "line 1: acount: want account, user, limit or budget"},
		{"\naccount", "line 2: account: want a name after it, as in: account physics shares=3"},
		{"account root shares=2", "line 1: account root: it is always there, has no parent and no shares; leave the line out"},
		{"account p shares=-1", "line 1: account p: shares=-1: want a whole number from 0 to 1000000"},
		{"account p shares=1.5", "line 1: account p: shares=1.5: want a whole number from 0 to 1000000"},
		{"account p shares=1000001", "line 1: account p: shares=1000001: want a whole number from 0 to 1000000"},
		{"account p shares=+1", "line 1: account p: shares=+1: want a whole number from 0 to 1000000"},
		{"account p shares=1 shares=2", "line 1: account p: shares is given twice"},
		{"account p share=1", "line 1: account p: share=1 is not known here; want description, parent, shares"},
		{"account p\naccount p", "line 2: account p: it has a line already, line 1; want one"},
		{"account p parent=q", "line 1: account p: its parent q has no line; want root, default or an account that has one"},
		{"account a parent=b\naccount b parent=c\naccount c parent=a", "line 1: account a: it is in itself: a in b in c in a; want a tree below root"},
		{"account a parent=a", "line 1: account a: it is in itself: a in a; want a tree below root"},
		{"account default parent=x\naccount x parent=default", "line 1: account default: it is in itself: default in x in default; want a tree below root"},
		{"account =1+1", "line 1: =1+1: want a word before the ="},
		{"account @sum", "line 1: account @sum: want letters, digits and _, and after the first also . - @ + $"},
		{"account p description=\"=1+1\"", "line 1: account p: description==1+1: must not begin with = + - or @, which a spreadsheet takes for a formula"},
		{"account p description=\"open", "line 1: description: no closing quote; want one on the same line"},
		{"account p\x1b[2J", `line 1: character '\x1b' at byte 10; want no control characters`},
		{"user ada", "line 1: user ada: want account=NAME; a user without a line is in the account default"},
		{"user ada account=p", "line 1: user ada: account p has no line; want root, default or an account that has one"},
		{"account p\nuser ada account=p\nuser ada account=p", "line 3: user ada account=p: it has a line already, line 2; want one for each account"},
		{"account p\naccount q\nuser ada account=p\nuser ada account=q", "line 3: user ada: is in 2 accounts, and none is the default; want the word default on one of the lines"},
		{"account p\naccount q\nuser ada account=p default\nuser ada account=q default", "line 4: user ada: line 3 is the default already; want the word on one of the lines"},
		{"limit", "line 1: limit: want whom it is for: user=NAME, account=NAME, queue=NAME, image=REF, all or each-user"},
		{"limit host=a slots=1", "line 1: limit host=a: want user=NAME, account=NAME, queue=NAME, image=REF, all or each-user"},
		{"limit all=x slots=1", "line 1: limit all=x: want just all"},
		{"limit user slots=1", "line 1: limit user: want user=NAME"},
		{"limit all", "line 1: limit all: want at least one of running=N pending=N slots=N memory=SIZE fgpu=X sessions=N wall=DURATION rate=N/m"},
		{"limit all slots=5\nlimit all running=5", "line 2: limit all: it has a line already, line 1; want one with all numbers"},
		{"limit account=p slots=5", "line 1: account p has no line; want root, default or an account that has one"},
		{"limit all memory=5", "line 1: limit all: memory=5: want a whole number with K, M, G, T, P or E, of 1024 each, such as 64G, up to 1E; or 0"},
		{"limit all memory=2E", "line 1: limit all: memory=2E: want a whole number with K, M, G, T, P or E, of 1024 each, such as 64G, up to 1E; or 0"},
		{"limit all fgpu=0.125", "line 1: limit all: fgpu=0.125: want a number from 0 to 1000000000 with at most two decimals, such as 0.5"},
		{"limit all wall=0", "line 1: limit all: wall=0: want minutes, hours:minutes, or a number with m, h or d, such as 90, 1:30, 36h, 7d; from 1 minute to 3660 days"},
		{"limit all rate=5", "line 1: limit all: rate=5: want a whole number of submissions in a minute, such as 100/m"},
		{"account p\nbudget account=p fgpu_hours=5 gpu_hours=5 period=month hard", "line 2: budget: gpu_hours=5: want one of fgpu_hours and gpu_hours, not both"},
		{"budget account=root fgpu_hours=0 period=month hard", "line 1: budget: fgpu_hours=0: want more than 0; to allow none, use: limit account=NAME fgpu=0"},
		{"budget account=root fgpu_hours=5 hard", "line 1: budget account=root: want period=month, period=quarter or period=until:YYYY-MM-DD"},
		{"budget account=root fgpu_hours=5 period=month", "line 1: budget account=root: want one of hard and soft"},
		{"budget account=root fgpu_hours=5 period=month hard soft", "line 1: budget account=root: want one of hard and soft"},
		{"budget account=root fgpu_hours=5 period=until:2027-02-29 hard", "line 1: budget: period=until:2027-02-29: want a day of the calendar as YYYY-MM-DD, from 2000-01-01 to 2199-12-31"},
		{"budget account=root fgpu_hours=5 period=until:2027-02-01 from=2027-02-02 hard", "line 1: budget account=root: from=2027-02-02 is after until:2027-02-01; want a day before it"},
		{"x\nlimit all slots=x\ny", "line 1: x: want account, user, limit or budget\nline 2: limit all: slots=x: want a whole number from 0 to 1000000000\nline 3: y: want account, user, limit or budget"},
	} {
		if p, err := ParsePolicy(row.text); err == nil {
			t.Errorf("%q gave %q", row.text, p)
		} else if err.Error() != row.want {
			t.Errorf("%q:\ngot  %s\nwant %s", row.text, err, row.want)
		}
	}
}

func TestManyMistakesAndDeepTreesAreBounded(t *testing.T) {
	_, err := ParsePolicy(strings.Repeat("x\n", 1000))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != maxMistakes+1 || lines[maxMistakes] != "and 980 mistakes more" {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	var chain strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&chain, "account a%d parent=a%d\n", i+1, i)
	}
	if _, err := ParsePolicy(chain.String() + "account a0"); err == nil || !strings.Contains(err.Error(), "33 accounts below root; want at most 32") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
	if _, err := ParsePolicy(strings.Repeat("#", MaxPolicyText+1)); err == nil {
		t.Error("a text of any length is read")
	}
}

func TestDiffSaysWhatChanges(t *testing.T) {
	a := mustPolicy(t, example)
	b := mustPolicy(t, strings.NewReplacer("shares=3", "shares=5", "account guests shares=0\n", "account visitors\n",
		"user bob account=chem\n", "", " default", "", "account=chem\n", "account=chem default\n", "running=500 ", "", "hard", "soft").Replace(example))
	want := []string{
		"account physics: shares 3 becomes 5",
		"account visitors: added: account visitors shares=1",
		"account guests: removed: account guests shares=0",
		"user ada in account chem: becomes the default",
		"user ada in account physics: no longer the default",
		"user bob in account chem: removed: user bob account=chem shares=1 default",
		"limit each-user: running 500 becomes unlimited",
		"budget account=physics fgpu_hours period=month: kind hard becomes soft",
	}
	if got := Diff(a, b); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := Diff(a, mustPolicy(t, canonical)); len(got) != 0 {
		t.Errorf("equal policies differ: %q", got)
	}
	if got := Diff(nil, a); len(got) != 14 {
		t.Errorf("of nothing: %d: %q", len(got), got)
	}
}

func TestEdits(t *testing.T) {
	p := mustPolicy(t, example)
	for _, row := range []struct {
		what string
		do   func() (*Policy, error)
		want string // the difference, or the error
	}{
		{"a new account", func() (*Policy, error) { return p.AddAccount(Account{Name: "bio", Parent: "science", Shares: 2}) },
			"account bio: added: account bio parent=science shares=2"},
		{"one that is there", func() (*Policy, error) { return p.AddAccount(Account{Name: "chem"}) }, "account chem: there is one already"},
		{"a name of two lines", func() (*Policy, error) { return p.AddAccount(Account{Name: "x\nuser eve account=physics", Shares: 1}) },
			"a name or a description has characters that a policy cannot have; want letters, digits and _, and after the first also . - @ + $"},
		{"negative shares", func() (*Policy, error) { return p.SetShares("chem", "", -1) },
			"account chem: shares=-1: want a whole number from 0 to 1000000"},
		{"a cycle", func() (*Policy, error) { return p.ChangeAccount("science", func(a *Account) { a.Parent = "chem" }) },
			"account chem: it is in itself: chem in science in chem; want a tree below root"},
		{"a new name goes everywhere", func() (*Policy, error) { return p.ChangeAccount("physics", func(a *Account) { a.Name = "phys" }) },
			"account phys: added: account phys parent=science shares=3\naccount physics: removed: account physics parent=science shares=3\n" +
				"user ada in account phys: added: user ada account=phys shares=2 default\nuser ada in account physics: removed: user ada account=physics shares=2 default\n" +
				"limit account=phys: added: limit account=phys fgpu=40 sessions=0\nlimit account=physics: removed: limit account=physics fgpu=40 sessions=0\n" +
				"budget account=phys fgpu_hours period=month: added: budget account=phys fgpu_hours=1000.5 period=month hard\n" +
				"budget account=physics fgpu_hours period=month: removed: budget account=physics fgpu_hours=1000.5 period=month hard"},
		{"an account with users", func() (*Policy, error) { return p.RemoveAccount("chem") }, "account chem: user ada is in it; move or remove all its users first"},
		{"an account with accounts", func() (*Policy, error) { return p.RemoveAccount("science") }, "account science: account chem is in it; move or remove that first"},
		{"an empty account", func() (*Policy, error) { return p.RemoveAccount("guests") }, "account guests: removed: account guests shares=0"},
		{"a first place is the default", func() (*Policy, error) { return p.AddMember(Member{User: "eve", Account: "guests", Shares: 1}) },
			"user eve in account guests: added: user eve account=guests shares=1 default"},
		{"a second is not", func() (*Policy, error) { return p.AddMember(Member{User: "bob", Account: "guests", Shares: 1}) },
			"user bob in account guests: added: user bob account=guests shares=1"},
		{"unless it says so", func() (*Policy, error) {
			return p.AddMember(Member{User: "bob", Account: "guests", Shares: 1, Default: true})
		},
			"user bob in account chem: no longer the default\nuser bob in account guests: added: user bob account=guests shares=1 default"},
		{"another default", func() (*Policy, error) { return p.SetDefault("ada", "chem") },
			"user ada in account chem: becomes the default\nuser ada in account physics: no longer the default"},
		{"a place that is none", func() (*Policy, error) { return p.SetDefault("ada", "guests") }, "user ada: has no line in account guests"},
		{"the default cannot go before another is", func() (*Policy, error) { return p.RemoveMember("ada", "physics") },
			"user ada: account physics is the default; make another the default first"},
		{"all places", func() (*Policy, error) { return p.RemoveMember("ada", "") },
			"user ada in account chem: removed: user ada account=chem shares=1\nuser ada in account physics: removed: user ada account=physics shares=2 default"},
		{"a place's shares", func() (*Policy, error) { return p.SetShares("chem", "bob", 7) }, "user bob in account chem: shares 1 becomes 7"},
		{"default's shares", func() (*Policy, error) { return p.SetShares("default", "", 7) }, "account default: added: account default shares=7"},
		{"a limit's other numbers stay", func() (*Policy, error) {
			l, err := ParseLimit("user=ada slots=65 wall=2d")
			if err != nil {
				return nil, err
			}
			return p.SetLimit(l)
		}, "limit user=ada: slots 64 becomes 65; wall 90m becomes 2d"},
		{"a limit goes", func() (*Policy, error) { return p.RemoveLimit(Scope{All, ""}) }, "limit all: removed: limit all running=100000"},
		{"a budget", func() (*Policy, error) {
			b, err := ParseBudget("account=physics fgpu_hours=7 period=month soft")
			if err != nil {
				return nil, err
			}
			return p.SetBudget(b)
		}, "budget account=physics fgpu_hours period=month: hours 1000.5 becomes 7; kind hard becomes soft"},
		{"budgets go", func() (*Policy, error) { return p.RemoveBudget("chem", "") },
			"budget account=chem gpu_hours period=until:2028-02-29 from=2027-10-01: removed: budget account=chem gpu_hours=20 period=until:2028-02-29 from=2027-10-01 soft"},
	} {
		q, err := row.do()
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(Diff(p, q), "\n")
		}
		if got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.what, got, row.want)
		}
	}
	if got := p.String(); got != canonical {
		t.Errorf("an edit changed what it was made from:\n%s", got)
	}
}

// FuzzParsePolicy holds that what is accepted comes back the same from its text, that no error is empty or shows a terminal
// what it would act on, and that all that the tree asks of a policy has an answer.
func FuzzParsePolicy(f *testing.F) {
	f.Add(example)
	f.Add(canonical)
	f.Add(classic)
	f.Add("account default parent=x\naccount x parent=default")
	f.Add("account a description=\"\\\"\\\\\"\nuser a$ account=root\nlimit image=a=b memory=1024E fgpu=0.01 wall=0:01")
	f.Add("budget account=default gpu_hours=0.01 period=until:2199-12-31 from=2000-01-01 hard")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy(text)
		if err != nil {
			if s := err.Error(); s == "" || strings.ContainsAny(s, "\x1b\r\x00") {
				t.Fatalf("%q: %q", text, s)
			}
			return
		}
		q, err := ParsePolicy(p.String())
		if err != nil || !q.equal(p) || q.String() != p.String() {
			t.Fatalf("%q gives\n%s\nwhich gives\n%s (%v)", text, p, q, err)
		}
		if d := Diff(p, q); len(d) > 0 {
			t.Fatalf("%q", d)
		}
		for _, a := range p.Accounts {
			if up := p.Above(a.Name); up[len(up)-1] != Root {
				t.Fatalf("%s is below %v", a.Name, up)
			}
		}
		for _, m := range p.Members {
			if at := p.DefaultOf(m.User); !p.IsMember(m.User, at) || !p.Has(m.Account) {
				t.Fatalf("%+v, default %s", m, at)
			}
		}
		if tree := mustUsage(t, week).Tree(p, noon, Weights{GPU: 1}); len(tree.Standings()) < 1 {
			t.Fatal("a tree of nothing")
		}
	})
}

// FuzzEdits holds that no edit, whatever names it is given, makes a policy that is not one of its text.
func FuzzEdits(f *testing.F) {
	f.Add("lab", "physics", "eve", "words", int64(3))
	f.Add("x\nuser eve account=physics", "default", "a b", "\"", int64(-1))
	f.Add("root", "lab", "=1", "#", int64(1<<40))
	f.Fuzz(func(t *testing.T, account, parent, user, words string, n int64) {
		p := mustPolicy(t, example)
		for what, edit := range map[string]func() (*Policy, error){
			"add account": func() (*Policy, error) {
				return p.AddAccount(Account{Name: account, Parent: parent, Shares: n, Description: words})
			},
			"change": func() (*Policy, error) {
				return p.ChangeAccount("chem", func(a *Account) { a.Name, a.Parent, a.Shares = account, parent, n })
			},
			"add member": func() (*Policy, error) { return p.AddMember(Member{User: user, Account: parent, Shares: n}) },
			"shares":     func() (*Policy, error) { return p.SetShares(account, user, n) },
			"limit": func() (*Policy, error) {
				return p.SetLimit(Limit{Scope: Scope{ForUser, user}, Running: n, Memory: n, Wall: time.Duration(n)})
			},
			"image": func() (*Policy, error) { return p.SetLimit(Limit{Scope: Scope{ForImage, words}, Running: n}) },
			"budget": func() (*Policy, error) {
				return p.SetBudget(Budget{Account: parent, Unit: BudgetUnit(words), Hours: n, Period: Month})
			},
			"budget until": func() (*Policy, error) {
				return p.SetBudget(Budget{Account: parent, Unit: GPUHours, Hours: n, Period: UntilDate, Until: Date{int(n), 2, 29}})
			},
		} {
			q, err := edit()
			if err != nil {
				continue
			}
			if again, err := ParsePolicy(q.String()); err != nil || !again.equal(q) {
				t.Fatalf("%s: %q: %v", what, q.String(), err)
			}
		}
		if p.String() != canonical {
			t.Fatal("an edit changed what it was made from")
		}
	})
}
