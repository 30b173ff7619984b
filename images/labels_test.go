package images

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseLabels(t *testing.T) {
	for _, row := range []struct {
		what string
		raw  map[string]string
		want Labels
	}{
		{"an image that says nothing", nil, Labels{Role: Compute}},
		{"an image of Backend.AI", map[string]string{
			"ai.backend.kernelspec":                    "1",
			"ai.backend.envs.corecount":                "OPENBLAS_NUM_THREADS,OMP_NUM_THREADS,NPROC",
			"ai.backend.features":                      "batch query uid-match user-input",
			"ai.backend.base-distro":                   "ubuntu20.04",
			"ai.backend.runtime-type":                  "python",
			"ai.backend.runtime-path":                  "/usr/bin/python",
			"ai.backend.accelerators":                  "cuda",
			"ai.backend.role":                          "COMPUTE",
			"ai.backend.resource.min.cpu":              "1",
			"ai.backend.resource.min.mem":              "1g",
			"ai.backend.resource.min.cuda.device":      "0",
			"ai.backend.resource.min.cuda.shares":      "0.1",
			"ai.backend.resource.preferred.shmem":      "64m",
			"ai.backend.resource.min.rocm.device":      "1",
			"ai.backend.service-ports":                 "ipython:pty:3000,jupyter:http:8091, jupyterlab:http:8090,vscode:http:[8180,8181],mlflow-ui:preopen:5000",
			"org.opencontainers.image.ref.name":        "ubuntu",
			"ai.backend.customized-image.user.email":   "a@b.c",
			"ai.backend.internal.block-service-ports":  "1",
			"org.label-schema.usage.singularity.other": "",
		}, Labels{
			Role: Compute, Features: []string{"batch", "query", "uid-match", "user-input"},
			Min: Resources{CPU: 1, Memory: 1 << 30, FGPU: 10}, Preferred: Resources{Shmem: 64 << 20},
			Accelerators: []string{"cuda"}, CoreCountEnv: []string{"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NPROC"},
			BaseDistro: "ubuntu20.04", RuntimeType: "python", RuntimePath: "/usr/bin/python",
			Apps: []App{{"jupyter", HTTP, []int{8091}}, {"jupyterlab", HTTP, []int{8090}}, {"vscode", HTTP, []int{8180, 8181}}, {"mlflow-ui", Preopen, []int{5000}}},
			Other: map[string]string{
				"ai.backend.kernelspec": "1", "ai.backend.resource.min.rocm.device": "1", "org.opencontainers.image.ref.name": "ubuntu",
				"ai.backend.customized-image.user.email": "a@b.c", "ai.backend.internal.block-service-ports": "1", "org.label-schema.usage.singularity.other": "",
			},
		}},
		{"the short form, which counts where both are", map[string]string{
			"ai.backend.service-ports": "a:http:8000", "fairslice.apps": "b:tcp:8001", "fairslice.min.mem": "1.5GiB", "fairslice.max.mem": "2GB",
			"fairslice.min.fgpu": "0.5", "fairslice.min.gpus": "2", "fairslice.role": "inference", "fairslice.workdir": "/work", "fairslice.corecount-env": "N",
		}, Labels{Role: Inference, Apps: []App{{"b", TCP, []int{8001}}}, Min: Resources{Memory: 3 << 29, FGPU: 50, GPUs: 2}, Max: Resources{Memory: 2 << 30},
			Workdir: "/work", CoreCountEnv: []string{"N"}}},
	} {
		if got, err := ParseLabels(row.raw); err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", row.what, got, err, row.want)
		}
	}
}

func TestParseLabelsRefuses(t *testing.T) {
	for _, row := range []struct{ key, value, want string }{
		{"ai.backend.service-ports", "jupyter:http:80", `label ai.backend.service-ports="jupyter:http:80": app jupyter: port "80": want a number from 1025 to 65534`},
		{"fairslice.apps", "jupyter", `label fairslice.apps="jupyter": app "jupyter": want name:proto:port`},
		{"fairslice.apps", "a:http:2200", "port 2200 is reserved (sshd)"},
		{"fairslice.apps", "a:udp:8000", `protocol "udp": want http, tcp, preopen, vnc or rdp`},
		{"fairslice.apps", "a:http:8000,a:http:8001", "app a is named twice"},
		{"fairslice.apps", "a:http:8000,b:http:8000", "app b: port 8000 is a's"},
		{"fairslice.apps", "a:http:[8000,8000]", "port 8000 twice"},
		{"fairslice.apps", "a:http:[8000,8001", "the bracket is not closed"},
		{"fairslice.apps", "../a:http:8000", "a name has letters"},
		{"fairslice.apps", ",a:http:8000", `app "": want`},
		{"ai.backend.resource.min.mem", "much", "want bytes, or a number with a unit"},
		{"ai.backend.resource.min.mem", "1.g", "want bytes"},
		{"ai.backend.resource.min.mem", "1x", "want bytes"},
		{"ai.backend.resource.min.mem", "1i", "want bytes"},
		{"ai.backend.resource.min.mem", "9999999999e", "more than 1 EB"},
		{"ai.backend.resource.min.cpu", "-1", "want a whole number"},
		{"ai.backend.resource.min.cuda.shares", "0.125", "at most two decimals"},
		{"ai.backend.envs.corecount", "A B", "is not the name of an environment variable"},
		{"ai.backend.runtime-path", "python", "want an absolute path"},
		{"ai.backend.role", "boss", "want compute, inference or system"},
		{"fairslice.app", "a:http:8000", "there is no such label"},
		{"ai.backend.features", strings.Repeat("x", maxLabelBytes+1), "at most 65536 can be read"},
	} {
		if got, err := ParseLabels(map[string]string{row.key: row.value}); err == nil || !strings.Contains(err.Error(), row.want) || len(err.Error()) > 500 {
			t.Errorf("%s=%.80q: %+v, %v; want %q", row.key, row.value, got, err, row.want)
		}
	}
	_, err := ParseLabels(map[string]string{"fairslice.min.mem": "x", "fairslice.min.cpu": "y"})
	if err == nil || !strings.Contains(err.Error(), "min.mem") || !strings.Contains(err.Error(), "min.cpu") {
		t.Errorf("not every mistake is reported: %v", err)
	}
	_, err = ParseLabels(map[string]string{"fairslice.min.mem": "2g", "fairslice.max.mem": "1g"})
	if err == nil || !strings.Contains(err.Error(), "the least mem, 2147483648, is more than the most, 1073741824") {
		t.Errorf("a least above the most: %v", err)
	}
}

func FuzzParseLabels(f *testing.F) {
	for _, s := range []string{"jupyter:http:8091,vscode:http:[8180,8181]", "a:pty:3000", "[,]:,[", "1.5g", "0.25", "A,B"} {
		f.Add("fairslice.apps", s)
		f.Add("ai.backend.resource.min.mem", s)
		f.Add("fairslice.corecount-env", s)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		l, err := ParseLabels(map[string]string{key: value})
		if err != nil {
			return
		}
		for _, a := range l.Apps {
			if len(a.Ports) == 0 || a.Name == "" || strings.ContainsAny(a.Name, "/\x00 ") {
				t.Fatalf("%q became %+v", value, a)
			}
			for _, p := range a.Ports {
				if p < MinPort || p > MaxPort {
					t.Fatalf("%q became %+v", value, a)
				}
			}
		}
		for _, r := range []Resources{l.Min, l.Max, l.Preferred} {
			if r.CPU < 0 || r.Memory < 0 || r.Shmem < 0 || r.FGPU < 0 || r.GPUs < 0 {
				t.Fatalf("%q became %+v", value, r)
			}
		}
	})
}
