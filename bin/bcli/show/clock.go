package show

import (
	"strconv"
	"time"
)

// Layouts of LSF's times.
const (
	shortTime = "Jan _2 15:04"
	yearTime  = "Jan _2 15:04:05 2006"
	longTime  = "Mon Jan _2 15:04:05"
	ctime     = "Mon Jan _2 15:04:05 2006"
	wideTime  = "01/02-15:04:05"
)

// Style is what options, environment and clock decide about the way values are printed.
type Style struct {
	Now        time.Time
	Loc        *time.Location
	HMS        bool // bjobs -hms: durations as hh:mm:ss
	Year       bool // LSB_DISPLAY_YEAR=Y: times with seconds and year
	ShortHosts bool // LSB_SHORT_HOSTLIST=1: 4*host instead of one name for each slot
	BareID     bool // LSB_BJOBS_DISPLAY_ENH=N: the elements of an array show the id of the job alone
	IDWidth    int  // LSB_JOBID_DISP_LENGTH, 7 when 0
}

func (st *Style) at(ns int64) time.Time {
	if st.Loc == nil {
		return time.Unix(0, ns)
	}
	return time.Unix(0, ns).In(st.Loc)
}

// time appends a time of a table: "Mar 18 02:06".
func (st *Style) time(b []byte, ns int64) []byte {
	if st.Year {
		return st.at(ns).AppendFormat(b, yearTime)
	}
	return st.at(ns).AppendFormat(b, shortTime)
}

// Stamp is a time as it begins a line of history: "Mon Oct 26 17:43:07".
func (st *Style) Stamp(ns int64) string {
	if st.Year {
		return st.at(ns).Format(ctime)
	}
	return st.at(ns).Format(longTime)
}

// CTime is a time with everything: "Thu Mar 18 02:06:32 2026".
func (st *Style) CTime(ns int64) string { return st.at(ns).Format(ctime) }

// seconds appends a duration as "16038 second(s)", or as hh:mm:ss where asked.
func (st *Style) seconds(b []byte, d time.Duration, decimals int) []byte {
	if st.HMS {
		return hms(b, d)
	}
	b = strconv.AppendFloat(b, d.Seconds(), 'f', decimals, 64)
	return append(b, " second(s)"...)
}

func hms(b []byte, d time.Duration) []byte {
	s := int64(max(d, 0) / time.Second)
	b = two(b, s/3600)
	b = append(b, ':')
	b = two(b, s/60%60)
	b = append(b, ':')
	return two(b, s%60)
}

func two(b []byte, v int64) []byte {
	if v < 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, v, 10)
}

// Span is a duration for people: "3 d 4 h", "12 min", "45 s".
func Span(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	num := func(v int64) string { return strconv.FormatInt(v, 10) }
	switch {
	case s < 60:
		return num(s) + " s"
	case s < 3600 && s%60 != 0 && s < 600:
		return num(s/60) + " min " + num(s%60) + " s"
	case s < 3600:
		return num(s/60) + " min"
	case s < 86400 && s/60%60 != 0:
		return num(s/3600) + " h " + num(s/60%60) + " min"
	case s < 86400:
		return num(s/3600) + " h"
	case s/3600%24 != 0:
		return num(s/86400) + " d " + num(s/3600%24) + " h"
	}
	return num(s/86400) + " d"
}
