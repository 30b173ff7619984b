package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

const someJob = "7 100 5 60 4 -1 -1 4 120 -1 1 3 2 9 1 -1 -1 -1"

func TestReadSWF(t *testing.T) {
	text := "; Version: 2.2\r\n;MaxProcs: 338 (batch partition)\n; a note without a label\n\n  " + someJob + "  \r\n" +
		"8 101 5 60.0 -1 55.25 1.5 4 120 12.5 1 3 2 9 1 -1 -1 -1" // no end of the last line
	want := []Job{
		{ID: 7, Submit: 100, Run: 60, Limit: 120, Allocated: 4, Requested: 4, User: 3, Group: 2, App: 9, Queue: 1},
		{ID: 8, Submit: 101, Run: 60, Limit: 120, Allocated: -1, Requested: 4, User: 3, Group: 2, App: 9, Queue: 1},
	}
	for name, from := range map[string]io.Reader{"plain": strings.NewReader(text), "packed": bytes.NewReader(pack(t, text))} {
		trace, err := ReadSWF(from, false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(trace.Jobs, want) {
			t.Errorf("%s: got %+v, want %+v", name, trace.Jobs, want)
		}
		if n, ok := trace.Number("MaxProcs"); n != 338 || !ok {
			t.Errorf("%s: MaxProcs is %d, %v", name, n, ok)
		}
		if _, ok := trace.Number("Version"); ok {
			t.Errorf("%s: 2.2 was taken for a whole number", name)
		}
		if last := trace.Header[2]; last != (SWFHeader{"", "a note without a label"}) {
			t.Errorf("%s: the note is %q", name, last)
		}
	}
}

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBadLines(t *testing.T) {
	for _, row := range []struct{ what, line, want string }{
		{"too few fields", "7 100 5", "line 2: 3 fields where the format has 18"},
		{"too many fields", someJob + " 1", "line 2: more than the format's 18 fields"},
		{"a word", strings.Replace(someJob, "60", "sixty", 1), `line 2: field 4 (run time) is "sixty"; allowed is a whole number of at most 4294967296, or -1 where it is not known`},
		{"a fraction where none can be", strings.Replace(someJob, "60", "60.5", 1), `field 4 (run time) is "60.5"`},
		{"a sign alone", strings.Replace(someJob, "60", "-", 1), `field 4 (run time) is "-"`},
		{"a point alone", strings.Replace(someJob, "60", "60.", 1), `field 4 (run time) is "60."`},
		{"a plus", strings.Replace(someJob, "60", "+60", 1), `field 4 (run time) is "+60"`},
		{"an exponent", strings.Replace(someJob, "60", "6e1", 1), `field 4 (run time) is "6e1"`},
		{"more than a lifetime", strings.Replace(someJob, "60", "4294967297", 1), `field 4 (run time) is "4294967297"`},
		{"more than an int64", strings.Replace(someJob, "60", strings.Repeat("9", 60), 1), `field 4 (run time) is "9999999999999999999999999999999999999..."`},
		{"binary", "\x00\x01\x02", "line 2: field 1 (job number)"},
		{"a line that does not end", strings.Repeat("1 ", longestLine), fmt.Sprintf("line 2: longer than %d bytes", longestLine)},
	} {
		text := "; x\n" + row.line + "\n" + someJob + "\n"
		_, err := ReadSWF(strings.NewReader(text), false)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.what, err, row.want)
		}
		trace, err := ReadSWF(strings.NewReader(text), true)
		if err != nil || trace.Bad != 1 || len(trace.Jobs) != 1 || !strings.Contains(trace.FirstBad.Error(), row.want) {
			t.Errorf("%s, skipped: %+v, %v", row.what, trace, err)
		}
	}
}

// What cannot be read is an error whether bad lines are skipped or not: nothing is left out in silence.
func TestBrokenFiles(t *testing.T) {
	whole := pack(t, strings.Repeat(someJob+"\n", 1000))
	for name, data := range map[string][]byte{"cut off": whole[:len(whole)/2], "a head only": whole[:5], "damaged": append(bytes.Clone(whole[:len(whole)-8]), "12345678"...)} {
		if trace, err := ReadSWF(bytes.NewReader(data), true); err == nil {
			t.Errorf("%s: read %d jobs of it", name, len(trace.Jobs))
		}
	}
}

func FuzzReadSWF(f *testing.F) {
	f.Add([]byte("; MaxProcs: 4\n" + someJob + "\n"))
	f.Add([]byte("1 2 3\n"))
	f.Add(pack(f, someJob))
	f.Fuzz(func(t *testing.T, data []byte) {
		strict, err := ReadSWF(bytes.NewReader(data), false)
		skipped, skipErr := ReadSWF(bytes.NewReader(data), true)
		if err == nil && (skipErr != nil || skipped.Bad != 0 || !reflect.DeepEqual(strict.Jobs, skipped.Jobs)) {
			t.Fatalf("strictly %d jobs, with bad lines skipped %+v, %v", len(strict.Jobs), skipped, skipErr)
		}
		var bad *BadLine
		if errors.As(err, &bad) && skipErr == nil && skipped.Bad == 0 {
			t.Fatalf("%v, but no line was counted as bad", err)
		}
		if skipErr != nil {
			return
		}
		// What was understood is written and read again as the same.
		var b bytes.Buffer
		writeSWF(&b, skipped.Jobs)
		again, err := ReadSWF(&b, false)
		if err != nil || len(again.Jobs) != len(skipped.Jobs) || len(again.Jobs) > 0 && !reflect.DeepEqual(again.Jobs, skipped.Jobs) {
			t.Fatalf("written and read again: %v", err)
		}
		if _, _, err := Workload(skipped.Jobs, 64, Change{}); err != nil {
			t.Fatal(err)
		}
	})
}
