package etc

import (
	"cmp"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// validate judges what single values cannot tell: ranges, names, and what refers to what.
func validate(r *report, c *Config) {
	v := &checker{r}
	v.daemon(c)
	v.times(c)
	v.gpu(&c.GPU)
	v.container(c)
	v.queues(c)
	v.images(c)
	v.catalogue(&c.Catalogue)
	v.session(&c.Session)
	v.resources(c)
	_, weights := r.find(path{"scheduler", "weights"})
	v.scheduler(&c.Scheduler, weights)
	v.accounting(&c.Accounting)
	v.web(&c.Web)
	v.apps(c)
	v.node(c)
}

// maxArrayIndex is queue.MaxArrayIndex: whatever a site allows, no array goes beyond.
const maxArrayIndex = 1_000_000

func (v *checker) daemon(c *Config) {
	v.name(path{"cluster"}, c.Cluster)
	v.oneOf(path{"log_level"}, c.LogLevel, "debug", "info", "warn", "error")
	v.absolute(path{"state_dir"}, c.StateDir, true)
	v.absolute(path{"socket"}, c.Socket, true)
	// The kernel's bound on a socket's path. A longer one would fail at start with "invalid argument".
	if len(c.Socket) > 107 {
		v.say(path{"socket"}, "a socket's path has at most 107 bytes; this one has %d", len(c.Socket))
	}
	v.hostPort(path{"listen"}, c.Listen)
	v.hostPort(path{"metrics"}, c.Metrics)
	v.list(path{"tls_names"}, c.TLSNames, v.hostName)
	v.list(path{"admins"}, c.Admins, v.user)
	v.absolute(path{"postgres_bin"}, c.PostgresBin, false)
	if c.PostgresUser != "" {
		v.user(path{"postgres_user"}, c.PostgresUser)
	}
	v.database(c.DatabaseURL)
	v.line(path{"default_project"}, c.DefaultProject, true)
	if _, err := time.LoadLocation(c.TimeZone); err != nil {
		v.say(path{"time_zone"}, "want a time zone that this machine knows, such as \"Europe/Berlin\" or \"UTC\"; got %s", quote(c.TimeZone))
	}
	if c.UnitForLimits != "" {
		v.oneOf(path{"unit_for_limits"}, c.UnitForLimits, units...)
	}
	v.between(path{"max_job_array_size"}, c.MaxJobArraySize, 1, maxArrayIndex)
}

// database never shows the address: it may hold a password, and mistakes end in logs.
func (v *checker) database(s string) {
	if s == "" {
		return
	}
	if strings.Contains(s, "://") {
		if u, err := url.Parse(s); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			v.say(path{"database_url"}, `want an address such as "postgres://user@host:5432/fairslice"`)
		}
	} else if !strings.Contains(s, "=") {
		v.say(path{"database_url"}, `want an address such as "postgres://user@host:5432/fairslice", or words such as "host=db user=fairslice"`)
	}
}

func (v *checker) times(c *Config) {
	v.duration(path{"clean_period"}, c.CleanPeriod, time.Second, maxRunLimit)
	v.duration(path{"heartbeat"}, c.Heartbeat, time.Second, 10*time.Minute)
	v.duration(path{"node_timeout"}, c.NodeTimeout, time.Second, 24*time.Hour)
	v.duration(path{"terminate_interval"}, c.TerminateInterval, time.Second, time.Hour)
	v.duration(path{"node", "reconnect"}, c.Node.Reconnect, time.Second, 10*time.Minute)
	if v.r.ok(path{"heartbeat"}, path{"node_timeout"}) && c.NodeTimeout < 2*c.Heartbeat {
		v.say(path{"node_timeout"}, "must be at least twice heartbeat (%s), or one late message would lose a node; got %s", c.Heartbeat, c.NodeTimeout)
	}
}

func (v *checker) gpu(g *GPU) {
	v.amount(path{"gpu", "fgpu_per_gpu"}, g.PerGPU)
	seen := map[string]string{}
	for _, model := range sortedKeys(g.PerModel) {
		p := path{"gpu", "per_model", model}
		v.amount(p, g.PerModel[model])
		v.line(p, model, true)
		if other, twice := seen[strings.ToLower(model)]; twice {
			v.say(p, "is the same model as %s: the case of letters makes no difference", quote(other))
		}
		seen[strings.ToLower(model)] = model
	}
}

var containerWords = []string{"required", "allowed", "never"}

func (v *checker) container(c *Config) {
	v.oneOf(path{"container", "default"}, c.Container.Default, containerWords...)
	v.imageName(path{"container", "default_image"}, c.Container.DefaultImage, c)
	v.absolute(path{"container", "apptainer"}, c.Container.Apptainer, false)
	v.list(path{"container", "binds"}, c.Container.Binds, v.bind)
}

func (v *checker) bind(p path, s string) {
	part := strings.Split(s, ":")
	good := len(part) <= 3 && !strings.ContainsAny(s, "\n\r\x00")
	for i, text := range part {
		good = good && (i < 2 && filepath.IsAbs(text) || i == 2 && text == "ro")
	}
	if !good {
		v.say(p, `want SRC[:DST[:ro]] with absolute paths, such as "/data:/data:ro"; got %s`, quote(s))
	}
}

func (v *checker) queues(c *Config) {
	names := make([]string, len(c.Queues))
	for i := range c.Queues {
		names[i] = c.Queues[i].Name
	}
	v.unique("queue", names)
	for i := range c.Queues {
		v.queue(path{"queue", i}, &c.Queues[i], c)
	}
	if len(names) == 0 {
		v.say(path{"queue"}, "want at least one queue")
	} else if !slices.Contains(names, c.DefaultQueue) {
		v.say(path{"default_queue"}, "no [[queue]] is named %s; there are: %s", quote(c.DefaultQueue), strings.Join(names, ", "))
	}
}

// Smaller ones have no room beside their own tables; making a larger one takes minutes.
const (
	minOverlay = 64 << 20
	maxOverlay = 1 << 40
)

func (v *checker) queue(p path, q *Queue, c *Config) {
	v.name(p.with("name"), q.Name)
	v.line(p.with("description"), q.Description, false)
	v.between(p.with("priority"), q.Priority, 1, 1_000_000)
	v.list(p.with("hosts"), q.Hosts, v.hostName)
	v.list(p.with("users"), q.Users, v.user)
	v.notAbove(p, "default_run_limit", "max_run_limit", int64(q.DefaultRunLimit), int64(q.MaxRunLimit))
	v.notAbove(p, "default_memory", "max_memory", q.DefaultMemory, q.MaxMemory)
	v.notAbove(p, "user_slots", "max_slots", int64(q.UserSlots), int64(q.MaxSlots))
	v.oneOf(p.with("container"), q.Container, containerWords...)
	v.imageName(p.with("image"), q.Image, c)
	v.oneOf(p.with("unfenced"), q.Unfenced, "refuse", "watchdog")
	if q.OverlaySize < minOverlay || q.OverlaySize > maxOverlay {
		v.say(p.with("overlay_size"), "want 64MiB to 1TiB; got %d bytes", q.OverlaySize)
	}
	v.idle(p, q)
	if q.Writable && q.Container == "never" {
		v.say(p.with("writable"), "the queue's container is \"never\", so there is no image to write to")
	}
	if q.Container == "never" && q.Image != "" {
		v.say(p.with("image"), "the queue's container is \"never\", so it can have no image")
	}
}

func (v *checker) images(c *Config) {
	refs, files := map[string]int{}, map[string]int{}
	for i := range c.Images {
		p, img := path{"image", i}, &c.Images[i]
		if !isImageName(img.Name) {
			v.say(p.with("name"), `want name or name:tag of letters, digits and . _ - /, such as "pytorch:2.4"; got %s`, quote(img.Name))
		} else if other, twice := refs[img.Ref()]; twice {
			v.say(p.with("name"), "image %s is there already%s", quote(img.Ref()), v.r.line(path{"image", other, "name"}))
		} else {
			refs[img.Ref()] = i
		}
		v.absolute(p.with("file"), img.File, true)
		if other, twice := files[filepath.Clean(img.File)]; twice && img.File != "" {
			v.say(p.with("file"), "is the file of image %s already%s", quote(c.Images[other].Ref()), v.r.line(path{"image", other, "file"}))
		} else {
			files[filepath.Clean(img.File)] = i
		}
	}
}

// imageName checks a reference to an image: one of the file's, or a SIF file by its path.
func (v *checker) imageName(p path, s string, c *Config) {
	if s == "" || filepath.IsAbs(s) {
		return
	}
	if !slices.ContainsFunc(c.Images, func(i Image) bool { return i.Ref() == withTag(s) }) {
		v.say(p, "no [[image]] is named %s; name one, or give the absolute path of a SIF file", quote(withTag(s)))
	}
}

// reservedResources are words that already mean something in -R.
var reservedResources = strings.Fields("mem swp tmp maxmem maxswp maxtmp ncpus nprocs ncores nthreads cpuf ndisks rexpri slots " +
	"ut r15s r1m r15m pg ls it io ngpus ngpus_physical fgpu gpu gmem gmodel type model hname ostype defined " +
	"select order rusage span same cu affinity duration decay")

func (v *checker) resources(c *Config) {
	names := make([]string, len(c.Resources))
	for i := range c.Resources {
		p, res := path{"resource", i}, &c.Resources[i]
		names[i] = res.Name
		switch {
		case !isResourceName(res.Name):
			v.say(p.with("name"), "want a letter, then letters, digits and _, at most 39; got %s", quote(res.Name))
		case slices.Contains(reservedResources, strings.ToLower(res.Name)):
			v.say(p.with("name"), "%s already has a meaning in bsub -R; choose another name", quote(res.Name))
		}
		v.quantity(p.with("per_node"), res.PerNode)
		for _, node := range sortedKeys(res.Nodes) {
			v.hostName(p.with("nodes", node), node)
			v.quantity(p.with("nodes", node), res.Nodes[node])
		}
	}
	v.unique("resource", names)
}

func (v *checker) quantity(p path, n int64) {
	if n < 0 || n > 1_000_000_000 {
		v.say(p, "want 0 to 1000000000; got %d", n)
	}
}

func (v *checker) node(c *Config) {
	n := &c.Node
	if n.Name != "" {
		v.hostName(path{"node", "name"}, n.Name)
	}
	v.batchd(n)
	v.absolute(path{"node", "token_file"}, n.TokenFile, false)
	v.absolute(path{"node", "ca_file"}, n.CAFile, false)
	v.between(path{"node", "slots"}, n.Slots, 0, 1_000_000)
	v.notNegative(path{"node", "memory"}, n.Memory)
	v.notNegative(path{"node", "memory_reserve"}, n.MemoryReserve)
	v.absolute(path{"node", "state_dir"}, n.StateDir, true)
	v.absolute(path{"node", "run_dir"}, n.RunDir, false)
	v.absolute(path{"node", "nvml_library"}, n.NVMLLibrary, false)
	v.hostPort(path{"node", "metrics"}, n.Metrics)
	if c.Metrics != "" && c.Metrics == n.Metrics {
		v.say(path{"node", "metrics"}, "is batchd's own address (metrics); on one machine both cannot have it")
	}
	if filepath.IsAbs(n.CgroupParent) || !filepath.IsLocal(n.CgroupParent) || n.CgroupParent == "." {
		v.say(path{"node", "cgroup_parent"}, `want a path below the cgroup file system, such as "fairslice"; got %s`, quote(n.CgroupParent))
	}
	v.oneOf(path{"node", "gpu_mode"}, n.GPUMode, "auto", "mig", "mps", "shim", "count")
	v.oneOf(path{"node", "gpu_share"}, n.GPUShare, "hard", "burst")
	v.absolute(path{"node", "dcgm_job_mapping_dir"}, n.DCGMDir, false)
	if n.Type != "" {
		v.name(path{"node", "type"}, n.Type)
	}
	if c.StateDir == n.RunDir {
		v.say(path{"node", "run_dir"}, "is batchd's own state_dir; noded needs one of its own")
	}
	if c.StateDir == n.StateDir {
		v.say(path{"node", "state_dir"}, "is batchd's own state_dir; on one machine each needs one of its own")
	}
}

// batchd checks where noded dials. Plain http is refused: the token would travel in the clear.
func (v *checker) batchd(n *Node) {
	p := path{"node", "batchd"}
	u, err := url.Parse(n.Batchd)
	switch {
	case err == nil && u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
	case err == nil && u.Scheme == "https" && u.Hostname() != "" && isPort(u.Port()) && strings.Trim(u.Path, "/") == "" &&
		u.User == nil && u.RawQuery == "":
		if n.TokenFile == "" {
			v.say(path{"node", "token_file"}, "is needed when batchd is reached over the network")
		}
	default:
		v.say(p, `want "unix:///path/of/socket" or "https://host:port"; got %s`, quote(n.Batchd))
	}
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && isDigits(s) && n >= 1 && n <= 65535
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}

// hostPort accepts "", for none.
func (v *checker) hostPort(p path, s string) {
	if s == "" {
		return
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !isPort(port) && port != "0" || strings.ContainsAny(host, " \t/") {
		v.say(p, `want host:port, such as "127.0.0.1:9120", ":9120" for all addresses, or "" for none; got %s`, quote(s))
	}
}
