package wire

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairslice/api/pb"
	"fairslice/nodes"
	"fairslice/queue"
)

// fill sets every exported field below v to a value of its own, so that a field that a conversion
// forgets, or takes from another, shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(*n % 250))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			v.Set(reflect.ValueOf(time.Unix(0, int64(*n)).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Interface, reflect.Func:
	default:
		panic("fill: " + v.Kind().String())
	}
}

func filled[T any](except ...func(*T)) T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	for _, f := range except {
		f(&v)
	}
	return v
}

// trip sends v through bytes and compares what comes out.
func trip[T any, P proto.Message](t *testing.T, v T, from func(T) P, to func(P) T) {
	t.Helper()
	p := from(v)
	wire, err := proto.Marshal(p)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	q := p.ProtoReflect().New().Interface().(P)
	if err := proto.Unmarshal(wire, q); err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	if got := to(q); !reflect.DeepEqual(got, v) {
		t.Errorf("%T came back changed:\n got %+v\nwant %+v", v, got, v)
	}
}

func TestEveryFieldSurvivesTheRoundTrip(t *testing.T) {
	noAdmin := func(i *queue.Identity) { i.Admin = false }
	trip(t, filled[*queue.Spec](), FromSpec, ToSpec)
	trip(t, filled(noAdmin), FromIdentity, ToIdentity)
	trip(t, filled[nodes.Allocation](), FromAllocation, ToAllocation)
	trip(t, filled[nodes.Node](), func(n nodes.Node) *pb.Node { return FromNode(&n) }, ToNode)
	trip(t, filled[queue.Usage](), FromUsage, ToUsage)
	trip(t, filled(func(s *queue.Submission) { s.Owner = queue.Identity{} }), FromSubmission, ToSubmission)
	trip(t, filled[queue.Accepted](), FromAccepted, ToAccepted)
	trip(t, filled[queue.Selection](), FromSelection, ToSelection)
	trip(t, filled(func(c *queue.Control) { c.By = queue.Identity{} }), FromControl, ToControl)
	trip(t, filled(func(c *queue.AdminCommand) { c.By = queue.Identity{} }), FromAdmin, ToAdmin)
	trip(t, filled[queue.Outcome](), FromOutcome, ToOutcome)
	trip(t, filled[*queue.Reservation](), FromReservation, ToReservation)
	trip(t, filled(func(q *queue.ReservationRequest) {
		q.By = queue.Identity{}
		for i := range q.Groups {
			q.Groups[i].GID = 0 // a group's number is looked up where the reservation is made
		}
	}), FromReservationRequest, ToReservationRequest)
	trip(t, filled[queue.Reason](), FromReason, ToReason)
	trip(t, filled(func(a *queue.Assignment) { noAdmin(&a.Owner) }), FromAssignment, ToAssignment)
	trip(t, filled[queue.Order](), FromOrder, ToOrder)
	trip(t, filled[queue.Hello](), FromHello, ToHello)
	trip(t, filled[queue.Heartbeat](), FromHeartbeat, ToHeartbeat)
	trip(t, filled[queue.PipeOrder](), FromPipeOrder, ToPipeOrder)
	for _, f := range []queue.PipeFrame{{Data: []byte("x")}, {EOF: true}, {Signal: "INT"}, {Rows: 40, Cols: 65535}} {
		trip(t, f, FromPipeFrame, ToPipeFrame)
	}
	trip(t, queue.Identity{User: "big", UID: 4_000_000_000, GID: 1 << 31}, FromIdentity, ToIdentity)
}

func TestEachKindOfReportCarriesAllOfItsParts(t *testing.T) {
	all := filled[queue.Report]()
	all.Began.Attempt = 0
	base := queue.Report{ID: all.ID, Attempt: all.Attempt, At: all.At}
	began, ended, stopped, failed := base, base, base, base
	began.Kind, began.Began = queue.ReportBegan, all.Began
	ended.Began = all.Began
	ended.Kind, ended.Status, ended.Verdict, ended.Detail, ended.Usage, ended.Ran, ended.Lost = queue.ReportEnded, all.Status, all.Verdict, all.Detail, all.Usage, all.Ran, true
	stopped.Kind, stopped.Stopped = queue.ReportStopped, true
	failed.Kind, failed.Code, failed.JobFault, failed.ExitCode, failed.Detail, failed.Verdict = queue.ReportFailed, all.Code, true, all.ExitCode, all.Detail, all.Verdict
	noted := base
	noted.Kind, noted.Detail = queue.ReportNoted, all.Detail
	covered := map[string]bool{}
	for _, r := range []queue.Report{began, ended, stopped, failed, noted} {
		trip(t, r, FromReport, ToReport)
		v := reflect.ValueOf(r)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				covered[v.Type().Field(i).Name] = true
			}
		}
	}
	for i := range reflect.TypeFor[queue.Report]().NumField() {
		if name := reflect.TypeFor[queue.Report]().Field(i).Name; !covered[name] {
			t.Errorf("no kind of report carries %s", name)
		}
	}
}

func TestARowOfAListingLeavesNoFieldEmpty(t *testing.T) {
	j, e := filled[queue.Job](), filled[queue.Element]()
	e.Result.Status, e.Result.Verdict = 7<<8, queue.TermOwner
	row := FromElement(&j, &e, FromSpec(j.Spec), 30)
	counted := FromArray(&j, FromSpec(j.Spec), 30)
	caller := map[protoreflect.Name]bool{"reasons": true, "expected_start": true, "turn": true, "fetch": true}
	fields := row.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !row.ProtoReflect().Has(f) && !counted.ProtoReflect().Has(f) && !caller[f.Name()] {
			t.Errorf("field %s of a row is never set", f.Name())
		}
	}
	if row.ExitCode != 7 || row.VerdictText == "" {
		t.Errorf("exit code %d, text %q", row.ExitCode, row.VerdictText)
	}
}

func TestEventsSurviveTheRoundTrip(t *testing.T) {
	ev := queue.Event{Seq: 3, At: time.Unix(5, 0).UTC(), Job: 7, Index: 2, By: "alice", Body: &queue.Switched{Queue: "long"}}
	p, err := FromEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ToEvent(p)
	if err != nil || !reflect.DeepEqual(got, ev) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := ToEvent(&pb.Event{Kind: "from-the-future", Body: []byte("{}")}); err == nil {
		t.Error("an event kind of a newer version was accepted")
	}
}

func TestCodesHaveOneWordEachAndUnknownOnesStayHidden(t *testing.T) {
	for _, row := range codes {
		if CodeOf(row.code.Connect()) != row.code {
			t.Errorf("%s does not come back", row.code)
		}
	}
	if e, known := AsError(fmt.Errorf("password is hunter2")); known || e.Code != Internal || e.Msg == "password is hunter2" {
		t.Errorf("an unknown error was shown: %v", e)
	}
	if e, _ := AsError(fmt.Errorf("submit: %w", Errorf(Denied, "no"))); e.Code != Denied {
		t.Errorf("a wrapped code was lost: %v", e)
	}
}

func TestOnlyStatesNarrowTheSelection(t *testing.T) {
	c := ToControl(&pb.ControlRequest{Select: &pb.Selection{States: []string{"RUN", "PEND"}}, OnlyStates: []string{"RUN", "DONE"}})
	if !reflect.DeepEqual(c.Select.States, []queue.State{queue.Run}) {
		t.Errorf("got %v", c.Select.States)
	}
}
