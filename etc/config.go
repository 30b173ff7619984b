package etc

import (
	"slices"
	"strings"
	"time"
)

// Config is what the site has decided. Default gives one to start from; Parse and Load return it complete
// and valid. What each key means to the site stands in fairslice.toml; here stands what the code needs.
type Config struct {
	Cluster           string        `toml:"cluster"`
	LogLevel          string        `toml:"log_level"` // debug, info, warn, error: slog.Level reads it
	StateDir          string        `toml:"state_dir"`
	Socket            string        `toml:"socket"`
	Listen            string        `toml:"listen"` // host:port, "" for none
	TLSNames          []string      `toml:"tls_names"`
	Metrics           string        `toml:"metrics"`      // host:port, "" for none
	DatabaseURL       string        `toml:"database_url"` // "" for the private cluster; may hold a password: never logged
	PostgresBin       string        `toml:"postgres_bin"`
	PostgresUser      string        `toml:"postgres_user"`
	Admins            []string      `toml:"admins"`
	DefaultQueue      string        `toml:"default_queue"`
	DefaultProject    string        `toml:"default_project"`
	TimeZone          string        `toml:"time_zone"` // see Location
	CleanPeriod       time.Duration `toml:"clean_period"`
	MaxJobArraySize   int           `toml:"max_job_array_size"`
	UnitForLimits     string        `toml:"unit_for_limits"` // "" for LSF's own; see MemoryUnit
	Heartbeat         time.Duration `toml:"heartbeat"`
	NodeTimeout       time.Duration `toml:"node_timeout"`
	TerminateInterval time.Duration `toml:"terminate_interval"`
	JobReport         bool          `toml:"job_report"`

	GPU        GPU        `toml:"gpu"`
	Container  Container  `toml:"container"`
	Queues     []Queue    `toml:"queue"` // never empty
	Images     []Image    `toml:"image"`
	Catalogue  Catalogue  `toml:"images"`
	Session    Session    `toml:"session"`
	Resources  []Resource `toml:"resource"`
	Scheduler  Scheduler  `toml:"scheduler"`
	Accounting Accounting `toml:"accounting"`
	Web        Web        `toml:"web"`
	Apps       []App      `toml:"app"`
	Node       Node       `toml:"node"`
}

// Amount is a quantity of GPU in 1/100 fGPU, the same number as a nodes.Amount.
type Amount int64

// GPU says how many fGPU a physical GPU is worth.
type GPU struct {
	PerGPU   Amount            `toml:"fgpu_per_gpu"`
	PerModel map[string]Amount `toml:"per_model"`
}

// Container is how jobs are contained where their queue does not say otherwise.
type Container struct {
	Default      string   `toml:"default"` // required, allowed, never
	DefaultImage string   `toml:"default_image"`
	Binds        []string `toml:"binds"` // SRC[:DST[:ro]]
	BindHome     bool     `toml:"bind_home"`
	BindCWD      bool     `toml:"bind_cwd"`
	Apptainer    string   `toml:"apptainer"` // "" to look in PATH
}

// Queue is one [[queue]]. A limit of 0 is none: the key was left out.
type Queue struct {
	Name            string        `toml:"name"`
	Description     string        `toml:"description"`
	Priority        int           `toml:"priority"`
	Hosts           []string      `toml:"hosts"` // empty: all
	Users           []string      `toml:"users"` // empty: all
	DefaultRunLimit time.Duration `toml:"default_run_limit" as:"run limit"`
	MaxRunLimit     time.Duration `toml:"max_run_limit" as:"run limit"`
	DefaultMemory   int64         `toml:"default_memory" as:"size"` // bytes on each host
	MaxMemory       int64         `toml:"max_memory" as:"size"`     // bytes on each host
	MaxSlots        int           `toml:"max_slots" as:"limit"`     // of all running jobs of the queue
	UserSlots       int           `toml:"user_slots" as:"limit"`    // of one user's running jobs in the queue
	Exclusive       bool          `toml:"exclusive"`
	Rerunnable      bool          `toml:"rerunnable"`
	Interactive     bool          `toml:"interactive"`
	Container       string        `toml:"container"` // required, allowed, never; [container] default when left out
	Image           string        `toml:"image"`
	Unfenced        string        `toml:"unfenced"` // refuse, watchdog
	Writable        bool          `toml:"writable"`
	OverlaySize     int64         `toml:"overlay_size" as:"size"` // bytes
	IdleAfter       time.Duration `toml:"idle_after"`             // without use, a session is warned; 0 for never
	IdleWarn        time.Duration `toml:"idle_warn"`              // after the warning, it is ended
	IdleGPUBelow    int           `toml:"idle_gpu_below"`         // percent of its share
	IdleCPUBelow    int           `toml:"idle_cpu_below"`         // percent of its slots
}

// Image is one [[image]].
type Image struct {
	Name string `toml:"name"` // name or name:tag; see Ref
	File string `toml:"file"` // absolute path of a SIF file, on every node
}

// Resource is one [[resource]]: something countable that jobs use up while they run.
type Resource struct {
	Name    string           `toml:"name"`
	PerNode int64            `toml:"per_node"` // on every node that Nodes does not name
	Nodes   map[string]int64 `toml:"nodes"`
}

// Node is what noded reads.
type Node struct {
	Name          string        `toml:"name"`   // "" for the short host name
	Batchd        string        `toml:"batchd"` // unix:///path or https://host:port
	TokenFile     string        `toml:"token_file"`
	CAFile        string        `toml:"ca_file"`
	Slots         int           `toml:"slots"`                         // 0 for all cores
	Memory        int64         `toml:"memory" as:"size or 0"`         // bytes, 0 for all of the machine's less MemoryReserve
	MemoryReserve int64         `toml:"memory_reserve" as:"size or 0"` // bytes
	StateDir      string        `toml:"state_dir"`
	RunDir        string        `toml:"run_dir"` // "" for StateDir
	NVMLLibrary   string        `toml:"nvml_library"`
	Metrics       string        `toml:"metrics"` // host:port, "" for none
	CgroupParent  string        `toml:"cgroup_parent"`
	GPUMode       string        `toml:"gpu_mode"`                   // auto, mig, mps, shim, count
	GPUShare      string        `toml:"gpu_share"`                  // hard, burst
	DCGMDir       string        `toml:"dcgm_job_mapping_dir"`       // "" for none
	ImageCache    int64         `toml:"image_cache" as:"size or 0"` // bytes of images kept, 0 for no limit
	GuardPorts    bool          `toml:"guard_ports"`                // keep each user's ports from the other users of the machine
	Type          string        `toml:"type"`                       // "" for the machine's own
	Reconnect     time.Duration `toml:"reconnect"`
}

// Default is the configuration of an empty file. Each call gives a new one, which the caller may change.
func Default() *Config {
	c := base()
	c.complete(false, false, false)
	return c
}

// base is Default before what depends on other keys is filled in.
func base() *Config {
	return &Config{
		Cluster:           "fairslice",
		LogLevel:          "info",
		StateDir:          "/var/lib/fairslice",
		Socket:            "/run/fairslice/batchd.sock",
		Metrics:           "127.0.0.1:9120",
		Admins:            []string{"root"},
		DefaultProject:    "default",
		CleanPeriod:       time.Hour,
		MaxJobArraySize:   75_000,
		Heartbeat:         5 * time.Second,
		NodeTimeout:       30 * time.Second,
		TerminateInterval: 10 * time.Second,
		JobReport:         true,
		GPU:               GPU{PerGPU: 100},
		Container:         Container{Default: "allowed", BindHome: true, BindCWD: true},
		Scheduler:         newScheduler(),
		Catalogue:         newCatalogue(),
		Node: Node{
			MemoryReserve: 1 << 30,
			StateDir:      "/var/lib/fairslice-node",
			Metrics:       "127.0.0.1:9121",
			CgroupParent:  "fairslice",
			GPUMode:       "auto",
			GPUShare:      "hard",
			ImageCache:    200 << 30,
			GuardPorts:    true,
			Reconnect:     10 * time.Second,
		},
	}
}

// newQueue is a [[queue]] with nothing in it.
func newQueue() Queue {
	return Queue{Priority: 30, Exclusive: true, Interactive: true, Unfenced: "refuse", OverlaySize: 10 << 30,
		IdleWarn: 10 * time.Minute, IdleGPUBelow: 5, IdleCPUBelow: 5}
}

// complete fills in what follows from other keys where the file left it out. An empty default_queue, policy or
// batchd that was written down stays as it is, and is a mistake.
func (c *Config) complete(defaultQueueGiven, policyGiven, batchdGiven bool) {
	if len(c.Queues) == 0 {
		q := newQueue()
		q.Name, q.Description = "normal", "For jobs that say no queue."
		// A plan is worth as much as its estimates, so jobs that say nothing are not left without a limit.
		q.DefaultRunLimit = 24 * time.Hour
		c.Queues = []Queue{q}
	}
	if len(c.Apps) == 0 {
		c.Apps = defaultApps()
	}
	for i := range c.Queues {
		if c.Queues[i].Container == "" {
			c.Queues[i].Container = c.Container.Default
		}
	}
	if c.DefaultQueue == "" && !defaultQueueGiven {
		c.DefaultQueue = c.Queues[0].Name
	}
	c.Scheduler.complete(policyGiven)
	if c.Node.Batchd == "" && !batchdGiven {
		c.Node.Batchd = "unix://" + c.Socket
	}
}

// units are the words of unit_for_limits, in the order in which they are shown.
var units = []string{"KB", "MB", "GB", "TB", "PB", "EB"}

// MemoryUnit is unit_for_limits in bytes, 0 where the site has none: LSF then reads a bare -M in KB, and
// memory in -R and -gpu in MB.
func (c *Config) MemoryUnit() int64 {
	if c.UnitForLimits == "" {
		return 0
	}
	return 1 << (10 * (slices.Index(units, c.UnitForLimits) + 1))
}

// Location is time_zone, or the machine's own where the file says none.
func (c *Config) Location() *time.Location {
	if c.TimeZone == "" {
		return time.Local
	}
	loc, err := time.LoadLocation(c.TimeZone)
	if err != nil { // it was there when the file was read: the machine's zone files have gone since
		return time.Local
	}
	return loc
}

// Capacity is how much fGPU a GPU of a model is worth. A model matches a key of per_model that it
// contains, whatever the case; of several the longest decides, and of equally long ones the first by name.
func (g GPU) Capacity(model string) Amount {
	model = strings.ToLower(model)
	best := ""
	for key := range g.PerModel {
		if !strings.Contains(model, strings.ToLower(key)) {
			continue
		}
		if len(key) > len(best) || len(key) == len(best) && key < best {
			best = key
		}
	}
	if best == "" {
		return g.PerGPU
	}
	return g.PerModel[best]
}

// Ref is the image's name with its tag; without one it is "latest".
func (i Image) Ref() string { return withTag(i.Name) }

func withTag(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return name + ":latest"
}

// ImageFiles gives each image's file by its name:tag.
func (c *Config) ImageFiles() map[string]string {
	m := make(map[string]string, len(c.Images))
	for _, i := range c.Images {
		m[i.Ref()] = i.File
	}
	return m
}

// ResourceNames lists the custom resources in the order of the file.
func (c *Config) ResourceNames() []string {
	var names []string
	for _, r := range c.Resources {
		names = append(names, r.Name)
	}
	return names
}

// Supply is what a node has of the custom resources; those it has none of are left out.
func (c *Config) Supply(node string) map[string]int64 {
	m := map[string]int64{}
	for _, r := range c.Resources {
		q, named := r.Nodes[node]
		if !named {
			q = r.PerNode
		}
		if q > 0 {
			m[r.Name] = q
		}
	}
	return m
}
