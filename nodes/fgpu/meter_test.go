package fgpu

import (
	"encoding/json"
	"testing"
	"time"
)

func TestMeterSumsUpTime(t *testing.T) {
	var m Meter
	at := time.Unix(1000, 0)
	add := func(seconds float64, utilization int, bytes int64) {
		at = at.Add(time.Duration(seconds * float64(time.Second)))
		m.Add(at, utilization, bytes)
	}
	if m.MeanShare() != 0 {
		t.Error("a share before the first reading")
	}
	add(0, 9999, 100) // begins
	add(1, 2500, 500)
	add(1, 2500, 300)
	add(2, 500, -1)   // the driver does not tell the memory
	add(1, -1, 200)   // nor the time
	add(-1, 10000, 0) // the clock ran back
	add(1, 0, 0)
	want := Meter{Last: at, Measured: 5 * time.Second, SMTime: 600 * time.Millisecond, Peak: 500}
	if m != want || m.MeanShare() != 1200 {
		t.Errorf("%+v, mean %d; want %+v, mean 1200", m, m.MeanShare(), want)
	}
	add(3600, 10000, 0) // noded was away for an hour
	if m.Measured != 10*time.Second || m.SMTime != 5600*time.Millisecond {
		t.Errorf("after a gap: %+v", m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again Meter
	if err := json.Unmarshal(text, &again); err != nil || !again.Last.Equal(m.Last) || again.SMTime != m.SMTime || again.Measured != m.Measured || again.Peak != m.Peak {
		t.Errorf("%s read back: %+v, %v", text, again, err)
	}
}

// A year at full use does not overflow.
func TestMeterLastsALongRun(t *testing.T) {
	var m Meter
	at := time.Unix(0, 0).Add(time.Second)
	for range 365 * 24 * 3600 / 5 {
		m.Add(at, Whole, 1)
		at = at.Add(5 * time.Second)
	}
	if m.MeanShare() != Whole || m.SMTime < 364*24*time.Hour {
		t.Errorf("%+v, mean %d", m, m.MeanShare())
	}
}
