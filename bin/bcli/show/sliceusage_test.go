package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
)

// sliced is the manual's job with two slices, of which one was measured.
func sliced() (*pb.Job, *Style) {
	j, st := sample()
	j.Spec.ResReq, j.EffectiveResreq, j.Fgpu = "", "", 50
	j.Alloc = []*pb.Allocation{{Node: "gpu01", Slots: 2, Slices: []*pb.Slice{
		{Uuid: "GPU-5f2a", Index: 0, Amount: 50, Memory: 2 << 30, SmShare: 2500, Mode: "shim"},
		{Uuid: "GPU-77", Index: 1, Amount: 50, Memory: 2 << 30, SmShare: 2500, Mode: "shim"},
	}}}
	j.Usage.Gpus = []*pb.GPUUsage{{Uuid: "GPU-5f2a", Index: 0, Memory: 512 << 20, MaxMemory: 1536 << 20, Util: 2010,
		SmTime: int64(21300 * time.Millisecond), Measured: int64(100 * time.Second)}}
	return j, st
}

const sliceSection = `
 SLICE USAGE:
 GPU 0 (GPU-5f2a): peak 1536 MiB of 2048 MiB, SM 21.3 % of 25.0 %
 GPU 1 (GPU-77): not measured
`

func TestJobLongTellsWhatWasUsedOfEachSlice(t *testing.T) {
	j, st := sliced()
	for _, folded := range []bool{true, false} {
		got := string(JobLong(nil, j, st, folded))
		if !strings.HasSuffix(got, sliceSection) {
			t.Errorf("folded %v: the listing does not end in the slices:\n%s", folded, got)
		}
		if !strings.Contains(got, "PIDs: 10643 10644 10646 \n                     GPU 0: MEM: 512 MiB;  SM: 20.1 %\n") &&
			!strings.Contains(got, "PIDs: 10643 10644 10646  GPU 0: MEM: 512 MiB;  SM: 20.1 %\n") {
			t.Errorf("folded %v: the usage lacks what is used now:\n%s", folded, got)
		}
	}
	j.State = "DONE"
	got := string(JobLong(nil, j, st, true))
	if !strings.HasSuffix(got, sliceSection) || strings.Contains(got, "20.1") {
		t.Errorf("a finished job:\n%s", got)
	}
	j.Usage.Gpus = nil
	if got := string(JobLong(nil, j, st, true)); strings.Contains(got, "SLICE USAGE") {
		t.Errorf("nothing was measured, but:\n%s", got)
	}
}

func TestSliceUsageAsFields(t *testing.T) {
	j, st := sliced()
	f, err := ParseFormat(JobFields, "gpu_mem gpu_max_mem gpu_sm_time gpu_sm_mean gpu_usage delimiter='|'")
	if err != nil {
		t.Fatal(err)
	}
	same(t, string(f.Row(f.Header(nil), j, st)), "GPU_MEM|GPU_MAX_MEM|GPU_SM_TIME|GPU_SM_MEAN|GPU_USAGE\n"+
		"512 Mbytes|1.5 Gbytes|21.3 second(s)|21.3|GPU 0 (GPU-5f2a): peak 1536 MiB of 2048 MiB, SM 21.3 % of 25.0 %; GPU 1 (GPU-77): not measured\n")
	j.Usage = nil
	same(t, string(f.Row(nil, j, st)), "-|-|0.0 second(s)|-|-\n")
}

func TestSliceUsageAsDocument(t *testing.T) {
	j, _ := sliced()
	j.Usage.Gpus = append(j.Usage.Gpus, &pb.GPUUsage{Uuid: "GPU-gone\n", Index: 9})
	d := NewJSON("bhist", "JOBS")
	d.Open()
	SliceUsage(d, []nodes.Allocation{wire.ToAllocation(j.Alloc[0])}, wire.ToUsage(j.Usage))
	d.Close()
	same(t, string(d.End(nil)), `{
  "COMMAND":"bhist",
  "JOBS":1,
  "RECORDS":[
    {
      "GPU_USAGE":[
        {
          "GPU":0,
          "UUID":"GPU-5f2a",
          "MEMORY_BYTES":536870912,
          "MAX_MEMORY_BYTES":1610612736,
          "MEMORY_LIMIT_BYTES":2147483648,
          "SM_MEAN_PERCENT":21.3,
          "SM_LIMIT_PERCENT":25,
          "SM_SECONDS":21.300,
          "MEASURED_SECONDS":100.000
        },
        {
          "GPU":9,
          "UUID":"GPU-gone\n",
          "MEMORY_BYTES":0,
          "MAX_MEMORY_BYTES":0,
          "MEMORY_LIMIT_BYTES":0,
          "SM_MEAN_PERCENT":0,
          "SM_LIMIT_PERCENT":0,
          "SM_SECONDS":0.000,
          "MEASURED_SECONDS":0.000
        }
      ]
    }
  ]
}
`)
	if !json.Valid(d.End(nil)) {
		t.Error("no JSON")
	}
}
