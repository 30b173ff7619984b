package queue

import (
	"time"

	"fairslice/images"
	"fairslice/nodes"
)

// Spec is what a user asked for with bsub, after parsing and before the site's defaults are applied.
// It is kept as given, so that listings show the user's own words. The zero value of a field means
// that the option was not given.
type Spec struct {
	Name        string `json:"name,omitempty"`        // -J without the index list
	Array       *Array `json:"array,omitempty"`       // -J "name[1-10]%3"
	Description string `json:"description,omitempty"` // -jd

	// Command is what listings show; what runs is the script kept under ScriptHash.
	Command    string `json:"command"`
	ScriptHash string `json:"script_hash,omitempty"` // SHA-256 of the spooled script
	EnvHash    string `json:"env_hash,omitempty"`    // SHA-256 of the submission environment
	Shell      string `json:"shell,omitempty"`       // -L

	Queue   string `json:"queue,omitempty"`   // -q
	Project string `json:"project,omitempty"` // -P
	Account string `json:"account,omitempty"` // -G
	App     string `json:"app,omitempty"`     // -app

	Reservation string `json:"reservation,omitempty"` // -U: the ID of the advance reservation to run in

	MinSlots   int           `json:"min_slots,omitempty"`     // -n min[,max]; 0 means 1
	MaxSlots   int           `json:"max_slots,omitempty"`     // 0 means MinSlots
	RunLimit   time.Duration `json:"run_limit,omitempty"`     // -W
	Memory     int64         `json:"memory,omitempty"`        // -M, bytes on each host; exceeding it kills the job
	ResReq     string        `json:"res_req,omitempty"`       // -R as given, several joined by a blank
	Resources  ResReq        `json:"resources,omitzero"`      // -R parsed
	GPU        string        `json:"gpu,omitempty"`           // -gpu as given
	GPURequest *GPUOption    `json:"gpu_request,omitempty"`   // -gpu parsed
	Hosts      []HostWish    `json:"hosts,omitempty"`         // -m
	Exclusive  bool          `json:"exclusive,omitempty"`     // -x
	Image      string        `json:"image,omitempty"`         // -image: name, name:tag or path of a SIF file; in full with ImageID
	Writable   bool          `json:"writable,omitempty"`      // -writable: the image may be changed, for this session; see bimage commit
	Apps       []string      `json:"apps,omitempty"`          // -apps: to be started with it
	ImageID    images.ID     `json:"image_id,omitempty"`      // of the catalogue, what Image was when the job was submitted; 0 for others
	Begin      time.Time     `json:"begin,omitzero"`          // -b
	Terminate  time.Time     `json:"terminate,omitzero"`      // -t
	Depend     string        `json:"depend,omitempty"`        // -w as given
	TermOrphan bool          `json:"term_orphan,omitempty"`   // -ti
	Hold       bool          `json:"hold,omitempty"`          // -H
	Rerunnable bool          `json:"rerunnable,omitempty"`    // -r
	Priority   int           `json:"priority,omitempty"`      // -sp
	PreExec    string        `json:"pre_exec,omitempty"`      // -E
	PostExec   string        `json:"post_exec,omitempty"`     // -Ep
	SubHost    string        `json:"sub_host,omitempty"`      // where bsub ran
	SubCWD     string        `json:"sub_cwd,omitempty"`       // its working directory
	CWD        string        `json:"cwd,omitempty"`           // -cwd as given; "" means SubCWD
	Stdin      string        `json:"stdin,omitempty"`         // -i
	Stdout     string        `json:"stdout,omitempty"`        // -o or -oo, as given
	Stderr     string        `json:"stderr,omitempty"`        // -e or -eo
	Overwrite  bool          `json:"overwrite,omitempty"`     // -oo
	OverwriteE bool          `json:"overwrite_err,omitempty"` // -eo
	MailUser   string        `json:"mail_user,omitempty"`     // -u
	NotifyB    bool          `json:"notify_begin,omitempty"`  // -B
	NotifyN    bool          `json:"notify_end,omitempty"`    // -N
	Umask      int           `json:"umask"`

	Interactive Interactive `json:"interactive,omitempty"`
	Rows        uint16      `json:"rows,omitempty"` // of the terminal at submission
	Cols        uint16      `json:"cols,omitempty"`
	Term        string      `json:"term,omitempty"` // TERM of that terminal

	Limits map[string]int64 `json:"limits,omitempty"` // -C -c -D -F -p -S -T -v: LSF's letter → value in bytes, seconds or a count
}

// Interactive is how a job's standard streams are tied to the submitting terminal.
type Interactive string

// Kinds of interaction. Wait is -K: a batch job whose end bsub waits for.
const (
	Batch    Interactive = ""
	Wait     Interactive = "K"
	Pipes    Interactive = "I"  // -I: standard streams, no terminal
	Pty      Interactive = "Ip" // -Ip: pseudo-terminal
	PtyShell Interactive = "Is" // -Is: pseudo-terminal in shell mode
)

// Session says that the job's streams are the submitter's, live.
func (i Interactive) Session() bool { return i == Pipes || i == Pty || i == PtyShell }

// HasPty says that the session has a pseudo-terminal.
func (i Interactive) HasPty() bool { return i == Pty || i == PtyShell }

// Array is the index list of -J "name[list]%limit".
type Array struct {
	Ranges []Range `json:"ranges"`
	Limit  int     `json:"limit,omitempty"` // elements running at once, 0 means any number
}

// Range is First..Last by Step, all from 1.
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
	Step  int `json:"step"`
}

// HostWish is one word of -m: a host, with LSF's preference and its "first execution host" mark.
type HostWish struct {
	Name       string `json:"name"`
	Preference int    `json:"preference,omitempty"` // host+2
	First      bool   `json:"first,omitempty"`      // host!
	Others     bool   `json:"others,omitempty"`     // the word "others"
}

// ResReq is a parsed -R string. Sections of several -R are merged as LSF merges them.
type ResReq struct {
	Select      Select           `json:"select,omitempty"`
	Order       string           `json:"order,omitempty"`
	Memory      int64            `json:"memory,omitempty"` // rusage[mem=], bytes
	MemoryScope Scope            `json:"memory_scope,omitempty"`
	FGPU        nodes.Amount     `json:"fgpu,omitempty"`        // rusage[fgpu=], on each host
	WholeGPUs   int              `json:"whole_gpus,omitempty"`  // rusage[ngpus_physical=]
	GPUMemory   int64            `json:"gpu_memory,omitempty"`  // rusage[…:gmem=]
	GPUModel    string           `json:"gpu_model,omitempty"`   // rusage[…:gmodel=]
	Consumables map[string]int64 `json:"consumables,omitempty"` // rusage[name=], on each host
	OneHost     bool             `json:"one_host,omitempty"`    // span[hosts=1]
	PerHost     int              `json:"per_host,omitempty"`    // span[ptile=n]
	Cores       int              `json:"cores,omitempty"`       // affinity[core(n)], CPUs a task
}

// Scope says what an rusage value is counted for.
type Scope string

// Scopes. The default for memory is per host.
const (
	PerHost Scope = "host"
	PerTask Scope = "task"
	PerJob  Scope = "job"
)

// GPUOption is a parsed -gpu string.
type GPUOption struct {
	FGPU      nodes.Amount `json:"fgpu,omitempty"`      // fgpu=0.5 (ours)
	Num       int          `json:"num,omitempty"`       // num=
	PerTask   bool         `json:"per_task,omitempty"`  // num=2/task
	Exclusive bool         `json:"exclusive,omitempty"` // mode=exclusive_process or j_exclusive=yes
	Shared    bool         `json:"shared,omitempty"`    // mode=shared was said
	Memory    int64        `json:"memory,omitempty"`    // gmem=
	Model     string       `json:"model,omitempty"`     // gmodel=
}

// Identity is who submitted: what the kernel or the token said, never what the client claims.
type Identity struct {
	User   string `json:"user"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups,omitempty"`
	Home   string `json:"home"`
	Shell  string `json:"shell,omitempty"`
	Admin  bool   `json:"-"` // may act on others' jobs; decided at each call
}

// Viewer is the user as the catalogue of images knows one.
func (i Identity) Viewer() images.Viewer {
	return images.Viewer{User: i.User, GIDs: append([]int{i.GID}, i.Groups...)}
}
