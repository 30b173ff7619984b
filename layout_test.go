package fairslice_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The layout of ARCHITECTURE.md as data: which folder may import which others of this module. "x/..." is x and
// everything below it, a more exact line wins. Tests may import more. A new folder needs its line here.
var layout = map[string][]string{
	"nodes":            {},
	"nodes/imagecache": {"images", "images/steady"},
	"images":           {"nodes"},
	"queue":            {"nodes", "images"},
	"accounting":       {"queue", "nodes", "backfill/placement"},
	"backfill":         {"queue", "nodes", "backfill/placement"},

	"archive": {}, // the file that jobs of long ago are kept in

	"reports":      {}, // what may be asked of the past, and how the answers look
	"reports/plot": {"reports"},

	"backfill/placement": {"nodes"},
	"backfill/replay":    {"backfill", "backfill/placement", "accounting", "queue", "nodes"},
	"queue/option":       {"queue", "nodes"},
	"queue/queuetest":    {"nodes", "queue"}, // for tests of others
	"queue/bsub":         {"queue", "nodes", "queue/option"},
	"queue/engine":       {"queue", "queue/bsub", "backfill", "backfill/placement", "accounting", "nodes", "images"},

	"store":           {"nodes", "images", "queue", "accounting", "backfill", "reports", "archive"},
	"store/pgserver":  {},
	"store/storetest": {"store", "store/pgserver", "nodes", "images", "queue", "accounting", "backfill"},

	// The agent drives the technologies of its own noun: they are its parts, not other edges.
	"nodes/agent":           {"nodes", "queue", "images", "nodes/apptainer", "nodes/cgroup", "nodes/cgroup/devices", "nodes/fgpu", "nodes/imagecache", "nodes/session", "nodes/shepherd"},
	"nodes/shepherd":        {"nodes"},
	"nodes/cgroup":          {"nodes"},
	"nodes/cgroup/devices":  {"nodes/cgroup"}, // apart: the process that starts jobs links the other
	"nodes/nvml":            {"nodes"},
	"nodes/portguard":       {},
	"nodes/fgpu":            {"nodes"},
	"nodes/fgpu/abi":        {}, // C headers
	"nodes/fgpu/shim":       {}, // C; tests only
	"nodes/fgpu/simdriver":  {"nodes", "nodes/fgpu/abi"},
	"nodes/fgpu/mode":       {"nodes", "nodes/nvml"},
	"nodes/fgpu/mps":        {"nodes"},
	"nodes/fgpu/tenant":     {"nodes", "nodes/fgpu", "nodes/fgpu/abi"},
	"nodes/fgpu/tenant/...": {"nodes", "nodes/fgpu"},
	"nodes/apptainer":       {"nodes"},
	"nodes/session":         {"nodes/session/tree", "images"},
	"nodes/session/tree":    {},
	"nodes/apptainer/enter": {"nodes/apptainer", "nodes/fgpu", "nodes/session"}, // a program of its own, which runs inside the container

	"images/sif":    {"images"},
	"images/depot":  {"images", "images/sif", "images/steady"},
	"images/steady": {},

	"api":        {"nodes", "images", "queue", "accounting", "backfill", "reports", "archive", "api/..."},
	"api/pb/...": {"api/pb/..."}, // generated
	"api/wire":   {"nodes", "images", "queue", "accounting", "backfill", "reports", "api/pb"},
	"api/pki":    {},
	"api/client": {"nodes", "images", "queue", "accounting", "backfill", "api/pb/...", "api/wire", "api/pki"},
	"web":        {"nodes", "images", "queue", "queue/bsub", "accounting", "backfill", "api/..."},
	"web/proxy":  {"images", "queue", "api", "api/wire"},
	"etc":        {},
	"test":       {"..."}, // tests only
	"test/bench": {"nodes", "queue", "backfill", "backfill/placement", "backfill/replay", "api/client", "nodes/fgpu", "nodes/fgpu/simdriver", "nodes/fgpu/tenant", "reports/plot"},
	"test/crash": {}, // tests only
	"test/apps":  {"images"},

	"bin/...": {"..."},
	// Scripts run bcli thousands of times: whatever it imports, each run pays for.
	"bin/bcli/...": {"nodes", "images", "queue", "queue/option", "queue/bsub", "accounting", "backfill", "reports", "archive", "api/pb/...", "api/wire",
		"api/pki", "api/client", "nodes/session/tree", "nodes/apptainer", "bin/bcli/..."},
}

// One outside package, one importer, so that leaving it behind is the work of one folder. A module that
// is not here may be imported by tests only (rapid, goleak, testscript).
var outside = map[string][]string{
	"github.com/jackc/pgx/v5":             {"store", "store/storetest"},
	"github.com/jackc/tern/v2":            {"store"},
	"github.com/NVIDIA/go-nvml":           {"nodes/nvml"},
	"github.com/sylabs/sif/v2":            {"images/sif"},
	"github.com/ProtonMail/go-crypto":     {"images/sif"}, // with the next, what package sif's library takes keys in: PGP and PEM
	"github.com/sigstore/sigstore":        {"images/sif"},
	"github.com/klauspost/compress":       {"archive", "images/sif"},
	"github.com/pelletier/go-toml/v2":     {"etc"},
	"github.com/creack/pty":               {"nodes/shepherd"},
	"github.com/cilium/ebpf":              {"nodes/cgroup/devices"},
	"github.com/google/nftables":          {"nodes/portguard"},
	"github.com/mdlayher/netlink":         {"nodes/portguard"}, // what nftables is made with: the type of its socket
	"github.com/coder/websocket":          {"web", "test/bench"},
	"connectrpc.com/connect":              {"api/...", "bin/..."},
	"google.golang.org/protobuf":          {"api/...", "bin/..."},
	"github.com/prometheus/client_golang": {"api", "web", "store", "nodes/agent", "queue/engine", "bin/batchd/...", "bin/noded/..."},
	"github.com/urfave/cli/v2":            {"bin/batchd/...", "bin/noded/...", "bin/bsim/..."}, // not bcli: its options are LSF's, and it must start fast
	"golang.org/x/sys":                    {"images/depot", "nodes/...", "store/pgserver", "api/...", "bin/..."},
	"golang.org/x/term":                   {"bin/..."},
	"github.com/chromedp":                 {"test/apps"},
	"github.com/prometheus/client_model":  {"bin/batchd/...", "bin/noded/..."},
	"github.com/prometheus/common":        {"bin/batchd/...", "bin/noded/..."},
}

// pure are the noun packages: no I/O, no clock, no logger, no goroutine, no context; now is an argument.
var pure = []string{"nodes", "images", "queue", "accounting", "backfill", "backfill/placement", "reports"}

// impure are what pure packages may not import, each with all below it.
var impure = []string{"context", "crypto/rand", "database", "embed", "expvar", "io/fs", "io/ioutil", "log", "math/rand", "net", "os",
	"plugin", "runtime", "sync", "syscall", "testing", "unsafe"}

// impureCalls are the members of packages that are pure otherwise.
var impureCalls = map[string][]string{
	"time":          {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "LoadLocation"},
	"fmt":           {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"},
}

const module = "fairslice"

func TestLayout(t *testing.T) {
	files := token.NewFileSet()
	folders := 0
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			skip := name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_"))
			if skip || d.Name() == "testdata" || name == "out" || name == "shared" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		if !seen[folder] && folder != "." {
			seen[folder] = true
			folders++
			if _, listed := lookUp(folder); !listed {
				t.Errorf("%s: this folder has no line in the layout; give it one, and say in ARCHITECTURE.md what it owns", folder)
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err // it does not build either
		}
		for _, found := range judge(folder, file) {
			t.Errorf("%s: %s", files.Position(found.at), found.text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if folders == 0 {
		t.Fatal("no folder with Go files was found")
	}
}

// finding is a breach of the layout.
type finding struct {
	at   token.Pos
	text string
}

func judge(folder string, file *ast.File) []finding {
	var out []finding
	isPure := slices.Contains(pure, folder)
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		if text := judgeImport(folder, imp); text != "" {
			out = append(out, finding{spec.Pos(), text})
		} else if isPure && within(imp, impure) {
			out = append(out, finding{spec.Pos(), fmt.Sprintf("imports %s: %s is pure: no I/O, no clock, no logger, no goroutine, no context", imp, folder)})
		}
	}
	if isPure {
		out = append(out, judgePure(folder, file)...)
	}
	return out
}

// judgeImport says what is wrong with an import of folder, or "".
func judgeImport(folder, imp string) string {
	if inside, ok := strings.CutPrefix(imp, module+"/"); ok {
		may, listed := lookUp(folder)
		if listed && !matches(inside, may) {
			return fmt.Sprintf("imports %s: of this module %s may import %s", imp, folder, words(may))
		}
		return ""
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for mod, who := range outside {
		if !within(imp, []string{mod}) {
			continue
		}
		if !matches(folder, who) {
			return fmt.Sprintf("imports %s: only %s may", imp, words(who))
		}
		return ""
	}
	return fmt.Sprintf("imports %s: not among the chosen dependencies; see the list in layout_test.go", imp)
}

// judgePure finds clocks, goroutines and the like in a file of a pure package.
func judgePure(folder string, file *ast.File) []finding {
	var out []finding
	names := map[string]string{} // as the file calls it → import path
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imp)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imp
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, finding{n.Pos(), "starts a goroutine: " + folder + " is pure"})
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && slices.Contains(impureCalls[names[id.Name]], n.Sel.Name) {
				out = append(out, finding{n.Pos(), fmt.Sprintf("uses %s.%s: %s is pure, and now is an argument", id.Name, n.Sel.Name, folder)})
			}
		}
		return true
	})
	return out
}

// lookUp finds the layout's line for a folder: its own, else the closest "x/..." around it.
func lookUp(folder string) ([]string, bool) {
	if may, ok := layout[folder]; ok {
		return may, true
	}
	for around := folder; around != "."; around = path.Dir(around) {
		if may, ok := layout[around+"/..."]; ok {
			return may, true
		}
	}
	return nil, false
}

// matches says that a folder is in a list of folders and "x/..." trees.
func matches(folder string, list []string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		tree, isTree := strings.CutSuffix(one, "...")
		return one == folder || isTree && strings.HasPrefix(folder+"/", tree)
	})
}

// within says that an import path is one of the list, or below one.
func within(imp string, list []string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return imp == one || strings.HasPrefix(imp, one+"/") })
}

func words(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// A table that nothing can break guards nothing.
func TestLayoutFindsBreaches(t *testing.T) {
	for _, row := range []struct{ what, folder, text, want string }{
		{"allowed", "queue", `import ("fairslice/nodes"; "time"); var _ = time.Second`, ""},
		{"the core on an edge", "queue", `import "fairslice/store"`, "imports fairslice/store: of this module queue may import nodes, images"},
		{"an edge on an edge", "store", `import "fairslice/api"`, "imports fairslice/api"},
		{"a private server in the store itself", "store", `import "fairslice/store/pgserver"`, "imports fairslice/store/pgserver"},
		{"a database outside of the store", "queue/engine", `import "github.com/jackc/pgx/v5/pgconn"`, "imports github.com/jackc/pgx/v5/pgconn: only store"},
		{"a module nobody chose", "store", `import "example.org/x"`, "not among the chosen dependencies"},
		{"bcli with a command framework", "bin/bcli/command", `import "github.com/urfave/cli/v2"`, "only bin/batchd/..., bin/noded/..., bin/bsim/... may"},
		{"bcli with the engine", "bin/bcli", `import "fairslice/queue/engine"`, "imports fairslice/queue/engine"},
		{"wiring", "bin/batchd", `import ("fairslice/queue/engine"; "fairslice/store"; "github.com/urfave/cli/v2")`, ""},
		{"a tree", "api", `import "fairslice/api/pb/pbconnect"`, ""},
		{"a name that only begins alike", "queue", `import "fairslice/nodesomething"`, "imports fairslice/nodesomething"},
		{"files", "nodes", `import "os/exec"`, "imports os/exec: nodes is pure"},
		{"a clock", "backfill", `import "time"; var _ = time.Now()`, "uses time.Now: backfill is pure"},
		{"a clock in disguise", "backfill", `import t "time"; var _ = t.Since`, "uses t.Since"},
		{"a goroutine", "accounting", `func f() { go f() }`, "starts a goroutine: accounting is pure"},
		{"a goroutine of an edge", "queue/engine", `func f() { go f() }`, ""},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+row.text, 0)
		if err != nil {
			t.Fatal(row.what, err)
		}
		got := ""
		for _, f := range judge(row.folder, file) {
			got += f.text
		}
		if !strings.Contains(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", row.what, got, row.want)
		}
	}
}
