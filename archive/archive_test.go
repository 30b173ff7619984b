package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"

	"fairslice/archive"
)

func header(jobs int64) archive.Header {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return archive.Header{Version: archive.Version, Cluster: "c1", Before: at, First: at.AddDate(0, -1, 0), Last: at.Add(-time.Second),
		Counts: archive.Counts{History: jobs, Charges: jobs}}
}

// pack makes an archive of some jobs with a charge each.
func pack(t testing.TB, jobs int64) ([]byte, string) {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, header(jobs))
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if err := w.Add(archive.History, fmt.Appendf(nil, `{"job":%d,"owner":"ada","name":"é <\" \\u0000 %d"}`, i, i*i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range jobs {
		if err := w.Add(archive.Charges, fmt.Appendf(nil, `{"job":%d,"slots":4,"began":null,"older":false}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), sum
}

// zip compresses lines as they are.
func zip(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unzip(t testing.TB, data []byte) string {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// read reads all of an archive; the error is nil where it is sound.
func read(r io.Reader) (rows []archive.Row, sum string, err error) {
	a, err := archive.NewReader(r)
	if err != nil {
		return nil, "", err
	}
	defer a.Close()
	for {
		row, err := a.Next()
		if err == io.EOF {
			return rows, a.Sum(), nil
		} else if err != nil {
			return rows, "", err
		}
		rows = append(rows, row)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, jobs := range []int64{1, 2, 499, 500, 501, 1000, 3001} {
		data, sum := pack(t, jobs)
		again, sum2 := pack(t, jobs)
		if !bytes.Equal(data, again) || sum != sum2 {
			t.Errorf("%d jobs: two archives of the same rows differ", jobs)
		}
		// However the bytes come.
		rows, got, err := read(iotest.HalfReader(bytes.NewReader(data)))
		if err != nil || got != sum || int64(len(rows)) != 2*jobs {
			t.Fatalf("%d jobs: %d rows, sum %s, %v", jobs, len(rows), got, err)
		}
		one, null, no := "0", (*string)(nil), "false"
		four := "4"
		want := archive.Row{Table: archive.Charges, Columns: []string{"job", "slots", "began", "older"}, Values: []*string{&one, &four, null, &no}}
		if !reflect.DeepEqual(rows[jobs], want) {
			t.Errorf("read as %+v", rows[jobs])
		}
		if name := *rows[0].Values[2]; name != `é <" \u0000 0` {
			t.Errorf("a text became %q", name)
		}
	}
}

// Without a place to write to only the sum is made, and it is the same.
func TestTheSumNeedsNoFile(t *testing.T) {
	w, err := archive.NewWriter(nil, header(1))
	if err != nil {
		t.Fatal(err)
	}
	for table, row := range map[archive.Table]string{archive.History: `{"job":0,"owner":"ada","name":"é <\" \\u0000 0"}`} {
		if err := w.Add(table, []byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(archive.Charges, []byte(`{"job":0,"slots":4,"began":null,"older":false}`)); err != nil {
		t.Fatal(err)
	}
	_, want := pack(t, 1)
	if sum, err := w.Close(); err != nil || sum != want {
		t.Errorf("%s, %v; want %s", sum, err, want)
	}
}

func TestTheWriterHoldsToItsCounts(t *testing.T) {
	row := []byte(`{"job":1}`)
	for what, f := range map[string]func(w *archive.Writer) error{
		"too few":         func(w *archive.Writer) error { return nil },
		"too many":        func(w *archive.Writer) error { _ = w.Add(archive.History, row); return w.Add(archive.History, row) },
		"out of order":    func(w *archive.Writer) error { _ = w.Add(archive.Charges, row); return w.Add(archive.History, row) },
		"two lines":       func(w *archive.Writer) error { return w.Add(archive.History, []byte("{\n}")) },
		"a row too large": func(w *archive.Writer) error { return w.Add(archive.History, make([]byte, archive.MaxRow+1)) },
	} {
		var b bytes.Buffer
		w, err := archive.NewWriter(&b, header(1))
		if err != nil {
			t.Fatal(err)
		}
		first := f(w)
		if _, err := w.Close(); err == nil || first == nil && what != "too few" {
			t.Errorf("%s: taken", what)
		}
	}
	for what, edit := range map[string]func(*archive.Header){
		"no job": func(h *archive.Header) { h.History = 0 }, "a negative count": func(h *archive.Header) { h.Events = -1 },
		"no cluster": func(h *archive.Header) { h.Cluster = "" }, "no date": func(h *archive.Header) { h.Before = time.Time{} },
	} {
		h := header(1)
		edit(&h)
		if _, err := archive.NewWriter(io.Discard, h); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// Whatever bit is flipped, and wherever the file is cut off, it is not sound; and the place is told.
func TestDamageIsFound(t *testing.T) {
	data, _ := pack(t, 40)
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if _, sum, err := read(bytes.NewReader(bad)); err == nil {
				// A few bits of zstd's own frame may say the same in two ways; the content must then be the same.
				if _, want := pack(t, 40); sum != want || unzip(t, bad) != unzip(t, data) {
					t.Fatalf("byte %d, bit %d: not found", i, bit)
				}
			} else if d, ok := errors.AsType[*archive.Damage](err); !ok || d.From > 82 {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
		}
	}
	for n := range data {
		if _, _, err := read(bytes.NewReader(data[:n])); err == nil {
			t.Fatalf("cut off after %d of %d bytes: not found", n, len(data))
		}
	}
	if _, _, err := read(bytes.NewReader(append(bytes.Clone(data), data...))); err == nil {
		t.Error("two archives, one after the other: taken")
	}
}

// The same for what zstd cannot see: each text is whole, and compressed anew.
func TestChangedLinesAreFound(t *testing.T) {
	const jobs = 1200
	data, _ := pack(t, jobs)
	text := unzip(t, data)
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	with := func(i int, line string) string {
		out := append([]string{}, lines...)
		out[i] = line
		return strings.Join(out, "") + "\n"
	}
	last := len(lines) - 1
	for _, row := range []struct{ what, text, want string }{
		{"a changed number", strings.Replace(text, `"job":7,`, `"job":8,`, 1), "between line 1 and line 1002: the lines are not those that were written"},
		{"late", strings.Replace(text, `{"charges":{"job":1100,`, `{"charges":{"job":1101,`, 1), "between line 2004 and line 2404: the lines"},
		{"a line too few", with(5, ""), "between line 1 and line 1001"},
		{"a line twice", with(5, lines[5]+lines[5]), "between line 1 and line 1002"},
		{"two lines in another order", with(5, lines[6]), "between line 1 and line 1002"},
		{"no check", with(1001, ""), "between line 1 and line 1002"},
		{"another check", with(1001, `{"check":"00"}`+"\n"), "between line 1 and line 1002"},
		{"no end", strings.TrimSuffix(text, lines[last]+"\n"), "after line 2403: the file is cut off, or damaged, here"},
		{"half an end", text[:len(text)-20], "after line 2403: the file is cut off, or damaged, here"},
		{"more after the end", text + "x\n", "line 2405: more follows the end"},
		{"half a line after the end", text + "x", "line 2404: more follows the end"},
		{"another sum", strings.Replace(text, `"sha256":"`, `"sha256":"0`, 1), "between line 2004 and line 2404"},
		{"a number in the end", strings.Replace(text, `{"end":{"history":1200`, `{"end":{"history":1201`, 1), "line 2404: there are 1200 jobs"},
		{"a number in the first line", strings.Replace(text, `"history":1200`, `"history":1199`, 1), "line 1002"},
		{"a table that is not known", with(3, `{"users":{"job":1}}`+"\n"), `line 4: want a row of history`},
		{"no JSON", with(3, "hello\n"), `line 4: want a row`},
		{"a list", with(3, `{"history":[1]}`+"\n"), "line 4: a row is a JSON object"},
		{"a list in a row", with(3, `{"history":{"job":[1]}}`+"\n"), `line 4: the column "job": want a text`},
		{"a column twice", with(3, `{"history":{"job":1,"job":2}}`+"\n"), `line 4: the column "job" is there twice`},
		{"a NUL", with(3, `{"history":{"job":"\u0000"}}`+"\n"), "line 4: the column \"job\": a NUL"},
		{"a newer format", strings.Replace(text, `{"fairslice_archive":1`, `{"fairslice_archive":2`, 1), "line 1: it has format 2"},
		{"another file", "hello\n", "line 1: this is no archive of Fairslice"},
		{"a key that is not known", strings.Replace(text, `"cluster"`, `"colour":1,"cluster"`, 1), "line 1: this is no archive"},
		{"nothing", "", "line 1: this is no archive of Fairslice"},
	} {
		_, _, err := read(bytes.NewReader(zip(t, row.text)))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.what, err, row.want)
		}
	}
	if _, _, err := read(strings.NewReader("PK\x03\x04, a file that zstd did not write")); err == nil || !strings.Contains(err.Error(), "no archive of Fairslice") {
		t.Errorf("not compressed: %v", err)
	}
}

// endless is a text that goes on.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// A small file that unpacks to very much is given up on the way, and memory does not grow with it.
func TestABombIsRefused(t *testing.T) {
	begin := strings.SplitAfter(unzip(t, first(pack(t, 1<<40>>30))), "\n")[0]
	begin = strings.Replace(begin, `"history":1024,"events":0,"charges":1024`, `"history":1000000000000,"events":0,"charges":1000000000000`, 1)
	for what, more := range map[string]string{"one line without end": strings.Repeat("a", 1<<16), "lines without end": strings.Repeat("\n", 1<<16)} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, io.MultiReader(strings.NewReader(begin), io.LimitReader(endless(more), 256<<20))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if b.Len() > 1<<17 {
			t.Fatalf("the bomb has %d bytes", b.Len())
		}
		if _, _, err := read(&b); err == nil {
			t.Errorf("%s: taken", what)
		} else if what == "one line without end" && !strings.Contains(err.Error(), "unpacks to more than 1000 times its size") && !strings.Contains(err.Error(), "a line has more than") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func first(data []byte, _ string) []byte { return data }

func TestCreateLeavesAWholeFileOrNone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.jsonl.zst")
	data, want := pack(t, 3)
	names := func() string {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range list {
			out = append(out, e.Name())
		}
		return strings.Join(out, " ")
	}
	if err := os.WriteFile(file+".partial", []byte("of a try that was killed, and longer than "+string(data)), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, write := range map[string]func(io.Writer) error{
		"an error":       func(io.Writer) error { return errors.New("disk full") },
		"half a file":    func(w io.Writer) error { _, err := w.Write(data[:len(data)/2]); return err },
		"no archive":     func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err },
		"nothing at all": func(io.Writer) error { return nil },
	} {
		if _, _, err := archive.Create(file, write); err == nil || names() != "" {
			t.Errorf("%s: %v, left %q", what, err, names())
		}
	}
	whole := func(w io.Writer) error { _, err := w.Write(data); return err }
	h, sum, err := archive.Create(file, whole)
	if err != nil || sum != want || h.History != 3 || names() != "a.jsonl.zst" {
		t.Fatalf("%v, %s, %+v, left %q", err, sum, h, names())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	if _, _, err := archive.Create(file, whole); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("overwritten: %v", err)
	}
	if h, sum, err := archive.Verify(file); err != nil || sum != want || h.History != 3 {
		t.Errorf("%v, %s, %+v", err, sum, h)
	}
	if _, _, err := archive.Verify(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// An error of the disk is no damage of the file.
func TestAnErrorOfReadingIsNoDamage(t *testing.T) {
	data, _ := pack(t, 3000)
	_, _, err := read(io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(errors.New("bad disk"))))
	if _, damage := errors.AsType[*archive.Damage](err); err == nil || damage || !strings.Contains(err.Error(), "bad disk") {
		t.Errorf("got %v", err)
	}
}

// Whatever is in a file: no panic, and what is found sound is what a writer would have written.
func FuzzReader(f *testing.F) {
	for _, jobs := range []int64{1, 3} {
		data, _ := pack(f, jobs)
		f.Add([]byte(unzip(f, data)), true)
		f.Add(data, false)
	}
	f.Add([]byte("{\"fairslice_archive\":1}\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, lines bool) {
		if lines { // so that the fuzzer gets past the compression
			data = zip(t, string(data))
		}
		a, err := archive.NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer a.Close()
		var counts archive.Counts
		for {
			row, err := a.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				if _, again := a.Next(); again != err {
					t.Fatalf("after %v came %v", err, again)
				}
				return
			}
			if len(row.Columns) == 0 || len(row.Columns) != len(row.Values) {
				t.Fatalf("a row %+v", row)
			}
			*counts.Of(row.Table)++
		}
		if counts != a.Header().Counts || len(a.Sum()) != 64 {
			t.Fatalf("sound, with %s of %s and the sum %q", counts, a.Header().Counts, a.Sum())
		}
	})
}

// A row is read as any JSON reader would read it, or not at all.
func FuzzParseRow(f *testing.F) {
	for _, s := range []string{`{"job":1,"name":"a\u0041\n","began":null,"x":true,"y":-1.5e3}`, `{}`, `{"a":{}}`, `{"a":1}{"b":2}`, `{"a":1,"a":2}`, `{"a":`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		row, err := archive.ParseRow(archive.Charges, data)
		if err != nil {
			return
		}
		if row.Table != archive.Charges || len(row.Columns) == 0 || len(row.Columns) != len(row.Values) {
			t.Fatalf("%q became %+v", data, row)
		}
		for i, v := range row.Values {
			if v != nil && strings.IndexByte(*v, 0) >= 0 || row.Columns[i] == "" {
				t.Fatalf("%q became %+v", data, row)
			}
		}
	})
}
