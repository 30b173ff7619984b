package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

var (
	// ErrNoDriver: there is no NVML on this machine, so it has no NVIDIA GPUs to offer.
	ErrNoDriver = errors.New("no NVIDIA driver library")
	// ErrLost: the GPU is there but cannot be used until it is reset or the machine restarted.
	ErrLost = errors.New("GPU is lost")
	// ErrUnsupported: the driver lacks the call, or does not answer it for this GPU.
	ErrUnsupported = errors.New("not supported by this driver or GPU")
	// ErrClosed: the Library was closed.
	ErrClosed = errors.New("nvml library is closed")
)

const fileName = "libnvidia-ml.so.1"

// Without these there is nothing to say about a GPU. All are older than any driver still in use.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
}

// loaded is the one library of this process (rule 4). It is never unloaded, for the symbols bound to
// it stay bound; between the last Close and the next Open it is only shut down.
var loaded struct {
	mu   sync.Mutex
	path string // "" before the first library is loaded
	dl   *dl.DynamicLibrary
	api  nvml.Interface
}

// Library is an initialised NVML. Its methods may be called at the same time from many goroutines.
// A call into the driver cannot be interrupted: where the driver hangs, so does the call, and Close
// waits for it.
type Library struct {
	api       nvml.Interface
	simulated bool
	driver    string
	has       func(symbol string) bool

	mu     sync.RWMutex // held for reading during calls, for writing to close
	closed bool

	knownMu sync.Mutex
	known   map[int]known // by index
}

// known is what a GPU was when it was last seen well. A lost GPU cannot tell its UUID any more.
type known struct {
	device Device
	handle nvml.Device
}

// Open loads and initialises NVML. libraryPath names the library's file or its directory; "" searches
// as the loader does. Each Library must be closed. The error is ErrNoDriver where there is no such
// file; anything else (a driver that does not fit its kernel module, a file that is no NVML) is an
// error that says what to look at.
func Open(libraryPath string) (*Library, error) {
	path, err := resolve(libraryPath)
	if err != nil {
		return nil, err
	}
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	if err := load(path); err != nil {
		return nil, err
	}
	api, lib := loaded.api, loaded.dl
	if ret := api.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("start %s: %s", path, explain(ret))
	}
	l := &Library{api: api, known: map[int]known{}}
	l.has = func(symbol string) bool { return lib.Lookup(symbol) == nil }
	l.simulated = l.has("fairsliceSimulated")
	if l.has("nvmlSystemGetDriverVersion") {
		if version, ret := api.SystemGetDriverVersion(); ret == nvml.SUCCESS {
			l.driver = version
		}
	}
	return l, nil
}

// resolve gives the name to load: an absolute path, or the bare file name for the loader's search.
func resolve(path string) (string, error) {
	if path == "" {
		return fileName, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", fileName, err)
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, fileName)
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s", ErrNoDriver, path)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", fileName, err)
	}
	return path, nil
}

// load makes path the library of this process. The caller holds loaded.mu.
func load(path string) error {
	if loaded.path == "" {
		// go-nvml would load it too, but says only "not found", whatever the reason.
		lib := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL|dl.RTLD_NODELETE)
		if err := lib.Open(); err != nil {
			// Of a library that ours needs, the loader says the same with that one's name.
			if path == fileName && strings.HasPrefix(err.Error(), fileName+": cannot open shared object file: No such file") {
				return ErrNoDriver
			}
			return fmt.Errorf("load %s: %w", path, err)
		}
		loaded.path, loaded.dl, loaded.api = path, lib, nvml.New(nvml.WithLibraryPath(path))
	}
	if loaded.path != path {
		return fmt.Errorf("load %s: this process already uses %s, and can use only one", path, loaded.path)
	}
	for _, symbol := range required {
		if loaded.dl.Lookup(symbol) != nil {
			return fmt.Errorf("load %s: it lacks %s, so it is no NVML, or one too old", path, symbol)
		}
	}
	return nil
}

// Close releases the driver. It may be called twice.
func (l *Library) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	loaded.mu.Lock()
	defer loaded.mu.Unlock()
	l.api.Shutdown() // it can fail only for a library that is not initialised
}

// enter begins a call into the driver; the caller unlocks l.mu's read side when it succeeds.
func (l *Library) enter() error {
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return ErrClosed
	}
	return nil
}

// explain is the driver's own text, with what to do about it where we know.
func explain(ret nvml.Return) string {
	text := ret.Error()
	switch ret {
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return text + ": the nvidia kernel module is not loaded (modprobe nvidia; dmesg says why not)"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return text + ": the library and the loaded kernel module are of different driver versions; restart the machine or reload the module"
	case nvml.ERROR_NO_PERMISSION:
		return text + ": the device files /dev/nvidia* are not open to this user"
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return text + ": dmesg has its Xid"
	}
	return text
}
