package command

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/queue"
)

func TestBrsvadd(t *testing.T) {
	f := &fake{}
	f.run([]string{"brsvadd", "-n", "8", "-m", "gpu01 gpu02", "-m", "gpu03", "-gpu", "fgpu=0.5", "-u", "alice bob", "-g", "staff", "-N", "course",
		"-b", "6:0", "-e", "8:0", "-d", "an exam"}, "").want(t, 0, "Reservation alice#0 is created\n", "")
	want := queue.ReservationRequest{Name: "course", Users: []string{"alice", "bob"}, Groups: []queue.Group{{Name: "staff"}}, Hosts: "gpu01 gpu02 gpu03",
		Slots: 8, GPU: "fgpu=0.5", Begin: "6:0", End: "8:0", Description: "an exam"}
	if !reflect.DeepEqual(f.reserve, want) {
		t.Errorf("asked %+v", f.reserve)
	}
	f.do("brsvadd -unit host -m all -s -t 5:18:0-5:20:0").has(t, 0, "is created\n", "")
	if !f.reserve.WholeHosts || !f.reserve.System || f.reserve.Slots != 0 || f.reserve.Window != "5:18:0-5:20:0" || f.reserve.Hosts != "all" {
		t.Errorf("asked %+v", f.reserve)
	}
	f.do("brsvadd -unit slot -n8 -m a -u b -t 8-9").has(t, 0, "is created\n", "")
	if f.reserve.WholeHosts || f.reserve.Slots != 8 {
		t.Errorf("asked %+v", f.reserve)
	}
	for line, text := range map[string]string{
		"brsvadd -unit node -m a":    "brsvadd: -unit node: want slot or host",
		"brsvadd -n 0 -m a":          "brsvadd: -n 0: Bad processor count: want a number from 1",
		"brsvadd -n 2.5 -m a":        "brsvadd: -n 2.5: Bad processor count: want a number from 1",
		"brsvadd -n 1 gpu01 -u b":    "brsvadd: gpu01: not understood",
		"brsvadd -o -n 1 -m a -u b":  "unknown option",
		"brsvadd -n 1 -m a -u b -b":  "option -b needs a value",
		"brsvadd -n 1 -m -u b -t 88": "option -m needs a value",
	} {
		f.do(line).has(t, 255, "", text)
	}
	f.err = errors.New("Not enough processors to be reserved: 8 slots wanted, 4 free")
	f.do("brsvadd -n 8 -m a -u b -t 8-9").want(t, 255, "", "Not enough processors to be reserved: 8 slots wanted, 4 free\n")
}

func TestBrsvdel(t *testing.T) {
	f := &fake{outcomes: []queue.Outcome{{ID: "a#0", OK: true, Text: "Reservation a#0 is being deleted"}, {ID: "x", Text: "x: Bad reservation ID"}}}
	f.do("brsvdel a#0 x").want(t, 255, "Reservation a#0 is being deleted\n", "x: Bad reservation ID\n")
	if f.admin.Op != "rsvdel" || !reflect.DeepEqual(f.admin.Names, []string{"a#0", "x"}) {
		t.Errorf("asked %+v", f.admin)
	}
	f.do("brsvdel").want(t, 255, "", "Reservation ID must be specified.\n")
}

func reservations() *pb.ReservationsResponse {
	begin := time.Date(2026, 11, 12, 6, 0, 0, 0, time.UTC)
	return &pb.ReservationsResponse{TimeZone: "Europe/Berlin", Reservations: []*pb.ListedReservation{
		{Reservation: &pb.Reservation{Id: "alice#0", Users: []string{"alice"}, Creator: "root", Description: "an exam", Begin: begin.UnixNano(), End: begin.Add(150 * time.Minute).UnixNano(),
			Shares: []*pb.Allocation{{Node: "gpu01", Slots: 4, Memory: 1 << 30, Slices: []*pb.Slice{{Index: 1, Uuid: "GPU-1", Amount: 50}}}, {Node: "gpu02", Slots: 2}}},
			Begin: begin.UnixNano(), End: begin.Add(150 * time.Minute).UnixNano(), Open: true, UsedSlots: []int32{3, 0}, Pending: []int64{7, 9}, Running: []int64{5}},
		{Reservation: &pb.Reservation{Id: "system#0", Creator: "root", Recurring: &pb.TimeWindow{Begin: 5*1440 + 18*60, End: 5*1440 + 20*60},
			Shares: []*pb.Allocation{{Node: "gpu03", Slots: 8, Exclusive: true}}}, Begin: begin.UnixNano(), End: begin.Add(2 * time.Hour).UnixNano(), UsedSlots: []int32{0}},
	}}
}

func TestBrsvs(t *testing.T) {
	const titles = "RSVID        TYPE      USER       NCPUS          RSV_HOSTS     TIME_WINDOW\n"
	f := &fake{reserved: reservations()}
	f.do("brsvs").want(t, 0, titles+
		"alice#0      user     alice       3/6        gpu01:3/4         11/12/6/0-11/12/8/30\n"+
		"                                             gpu02:0/2\n"+
		"system#0     sys      system      8          gpu03:0/8         5:18:0-5:20:0 *\n", "")
	f.do("brsvs -w -noheader").has(t, 0, "2026/11/12/6/0-2026/11/12/8/30\n", "")
	f.do("brsvs -l").want(t, 0, titles+
		"alice#0      user     alice       3/6        gpu01:3/4         11/12/6/0-11/12/8/30\n"+
		"                                             gpu02:0/2\n"+
		"Reservation Status:  Active\nActive Period:\n  Thu Nov 12 06:00:00 2026 - Thu Nov 12 08:30:00 2026\n"+
		"Description:  an exam\nCreator:  root\nResource Unit:  Slot\nReserved GPU:  gpu01 GPU 1, 0.5 fGPU\nPEND Jobs:  7 9\nRUN Jobs:  5\n\n"+titles+
		"system#0     sys      system      8          gpu03:0/8         5:18:0-5:20:0 *\n"+
		"Reservation Status:  Inactive\nTime Zone:  Europe/Berlin\nNext Active Period:\n  Thu Nov 12 06:00:00 2026 - Thu Nov 12 08:00:00 2026\n"+
		"Creator:  root\nResource Unit:  Host\n", "")
	r := f.do("brsvs -json alice#0 x")
	var doc struct {
		Records []struct {
			ID     string `json:"RSVID"`
			Status string `json:"STATUS"`
			Hosts  []struct {
				Name string `json:"HOST_NAME"`
				GPUs []struct {
					FGPU float64 `json:"FGPU"`
				} `json:"GPUS"`
			} `json:"RSV_HOSTS"`
		} `json:"RECORDS"`
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Records) != 2 || doc.Records[0].Hosts[0].GPUs[0].FGPU != 0.5 || doc.Records[1].Status != "Inactive" {
		t.Errorf("%v: %s", err, r.out)
	}
	if !reflect.DeepEqual(f.named, []string{"alice#0", "x"}) {
		t.Errorf("asked for %v", f.named)
	}
	f.reserved = &pb.ReservationsResponse{}
	f.do("brsvs").want(t, 0, "", "No reservation found\n")
	f.reserved.NotFound = []string{"x: Bad reservation ID"}
	f.do("brsvs x").want(t, 255, "", "x: Bad reservation ID\n")
}

func TestAJobShowsItsReservation(t *testing.T) {
	j := job(1, "PEND")
	j.Spec.Reservation = "alice#0"
	f := &fake{jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{j}}}}
	f.do("bjobs -UF 1").has(t, 0, "Queue <normal>, Reservation <alice#0>", "")
	f.run([]string{"bjobs", "-noheader", "-o", "jobid rsvid", "1"}, "").want(t, 0, "1 alice#0\n", "")
}
