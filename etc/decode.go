package etc

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// decode lays the tree over the struct that into points to. The TOML library's own decoder stops at the first
// mistake; an administrator wants to see them all. A value that cannot be read leaves its default in place.
func decode(r *report, root *item, into any) {
	(&decoder{r}).table(nil, root, reflect.ValueOf(into).Elem())
}

type decoder struct{ r *report }

// field is a key that a table may hold.
type field struct {
	key, as string
	value   reflect.Value
}

func fieldsOf(v reflect.Value) []field {
	out := make([]field, v.NumField())
	for i := range out {
		tag := v.Type().Field(i).Tag
		out[i] = field{tag.Get("toml"), tag.Get("as"), v.Field(i)}
	}
	return out
}

// topKeys are the keys before the first section: a key of theirs in a section is most likely one that slipped.
var topKeys = keysOf(fieldsOf(reflect.ValueOf(Config{})))

func keysOf(fs []field) []string {
	keys := make([]string, len(fs))
	for i, f := range fs {
		keys[i] = f.key
	}
	return keys
}

func (d *decoder) table(p path, i *item, v reflect.Value) {
	fields := fieldsOf(v)
	for _, key := range i.keys {
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if at < 0 {
			d.unknown(p, key, keysOf(fields))
			continue
		}
		f := fields[at]
		d.value(p.with(key), i.table[key], f.value, f.as)
	}
}

func (d *decoder) unknown(p path, key string, allowed []string) {
	hint := ""
	if near := closest(key, allowed); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	} else if len(p) > 0 && slices.Contains(topKeys, key) {
		hint = "; it belongs to the top of the file, before the first [section]"
	}
	d.r.say(p.with(key), "unknown key%s; allowed here: %s", hint, strings.Join(allowed, ", "))
}

// value reads one item into v, by v's type and the field's "as".
func (d *decoder) value(p path, i *item, v reflect.Value, as string) {
	switch into := v.Addr().Interface().(type) {
	case *string:
		if d.want(p, i, "a text in quotes", unstable.String) {
			*into = i.text
		}
	case *bool:
		if d.want(p, i, "true or false", unstable.Bool) {
			*into = i.text == "true"
		}
	case *int:
		if n, ok := d.integer(p, i); ok {
			if as == "limit" && n == 0 {
				d.r.say(p, "%v", errNoLimit)
			} else {
				*into = int(n)
			}
		}
	case *int64:
		d.size(p, i, into, as)
	case *float64:
		d.number(p, i, "a number of 0 or more", into)
	case *GPUWeight:
		if i.kind == unstable.String && i.text == "auto" {
			*into = AutoGPUWeight
		} else {
			d.number(p, i, `"auto", or a number of 0 or more`, (*float64)(into))
		}
	case *Amount:
		d.amount(p, i, into)
	case *Months:
		if d.want(p, i, strings.TrimPrefix(wantMonths, "want "), unstable.String) {
			n, err := parseMonths(i.text)
			if err != nil {
				d.r.say(p, "%v", err)
			}
			*into = n
		}
	case *time.Duration:
		d.duration(p, i, into, as)
	case *[]string:
		d.strings(p, i, into)
	case *map[string]int64:
		d.each(p, i, "numbers by name", func(p path, key string, i *item) {
			if n, ok := d.integer(p, i); ok {
				set(into, key, n)
			}
		})
	case *map[string]Amount:
		d.each(p, i, "amounts by name", func(p path, key string, i *item) {
			var a Amount
			if d.amount(p, i, &a) {
				set(into, key, a)
			}
		})
	case *[]Queue:
		tables(d, p, i, into, newQueue)
	case *[]App:
		tables(d, p, i, into, newApp)
	case *[]Image:
		tables(d, p, i, into, func() Image { return Image{} })
	case *[]Resource:
		tables(d, p, i, into, func() Resource { return Resource{} })
	default: // a section
		if d.want(p, i, fmt.Sprintf("a section, written [%s]", d.r.label(p)), unstable.Table) {
			d.table(p, i, v)
		}
	}
}

func set[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// tables reads every [[section]] of a name.
func tables[T any](d *decoder, p path, i *item, into *[]T, fresh func() T) {
	if i.kind != unstable.ArrayTable && i.kind != unstable.Array {
		d.r.say(p, "want sections, each written [[%s]]; got %s", d.r.label(p), describe(i))
		return
	}
	for n, one := range i.list {
		t := fresh()
		if d.want(p.with(n), one, "a table", unstable.Table) {
			d.table(p.with(n), one, reflect.ValueOf(&t).Elem())
		}
		*into = append(*into, t) // also a bad one, so that places in the list stay those of the file
	}
}

// want says whether i is of one of the kinds, and if not, what was wanted.
func (d *decoder) want(p path, i *item, what string, kinds ...unstable.Kind) bool {
	if slices.Contains(kinds, i.kind) {
		return true
	}
	d.r.say(p, "want %s; got %s", what, describe(i))
	return false
}

func (d *decoder) integer(p path, i *item) (int64, bool) {
	if !d.want(p, i, "a whole number", unstable.Integer) {
		return 0, false
	}
	// TOML writes 1_000, +5, 0x10, 0o7 and 0b1; Go reads all but the plus.
	n, err := strconv.ParseInt(strings.TrimPrefix(i.text, "+"), 0, 64)
	switch {
	case err != nil:
		d.r.say(p, "%s is no number that fits", quote(i.text))
	case n < 0:
		d.r.say(p, "must not be negative; got %d", n)
	case n > maxSize:
		d.r.say(p, "%d is too large", n)
	default:
		return n, true
	}
	return 0, false
}

// number reads a float, which a whole number is too. TOML's inf and nan are none that can be reckoned with.
func (d *decoder) number(p path, i *item, what string, into *float64) {
	if !d.want(p, i, what, unstable.Integer, unstable.Float) {
		return
	}
	if i.kind == unstable.Integer {
		if n, ok := d.integer(p, i); ok {
			*into = float64(n)
		}
		return
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(i.text, "_", ""), 64)
	if err != nil || !(x >= 0 && x <= math.MaxFloat64) {
		d.r.say(p, "want %s; got %s", what, i.text)
		return
	}
	*into = x
}

// size reads bytes, or a plain quantity where the field says nothing.
func (d *decoder) size(p path, i *item, into *int64, as string) {
	if as == "" {
		if n, ok := d.integer(p, i); ok {
			*into = n
		}
		return
	}
	if i.text == "0" && (i.kind == unstable.Integer || i.kind == unstable.String) {
		if *into = 0; as != "size or 0" {
			d.r.say(p, "%v", errNoLimit)
		}
		return
	}
	if i.kind != unstable.String {
		d.r.say(p, "%s; got %s", wantSize, describe(i))
		return
	}
	n, err := parseSize(i.text)
	if err == nil && n == 0 && as != "size or 0" {
		err = errNoLimit
	}
	if err != nil {
		d.r.say(p, "%v", err)
		return
	}
	*into = n
}

func (d *decoder) amount(p path, i *item, into *Amount) bool {
	if i.kind != unstable.String && i.kind != unstable.Integer && i.kind != unstable.Float {
		d.r.say(p, "%s; got %s", wantAmount, describe(i))
		return false
	}
	a, err := parseAmount(strings.TrimSpace(i.text)) // a number is read as it is written: 0.1 is not a binary fraction
	if err != nil {
		d.r.say(p, "%v", err)
		return false
	}
	*into = a
	return true
}

func (d *decoder) duration(p path, i *item, into *time.Duration, as string) {
	var t time.Duration
	var err error
	switch {
	case as == "run limit" && (i.kind == unstable.String || i.kind == unstable.Integer):
		t, err = parseRunLimit(i.text)
	case as == "run limit":
		err = errors.New(wantRunLimit + "; got " + describe(i))
	case i.kind != unstable.String:
		err = errors.New(wantDuration + "; got " + describe(i))
	default:
		if t, err = time.ParseDuration(strings.TrimSpace(i.text)); err != nil {
			err = errors.New(wantDuration + "; got " + quote(i.text))
		}
	}
	if err != nil {
		d.r.say(p, "%v", err)
		return
	}
	*into = t
}

func (d *decoder) strings(p path, i *item, into *[]string) {
	const what = `a list of texts, such as ["a", "b"]`
	if !d.want(p, i, what, unstable.Array) {
		return
	}
	var out []string
	for n, one := range i.list {
		if d.want(p.with(n), one, "a text in quotes", unstable.String) {
			out = append(out, one.text)
		} else {
			out = append(out, "") // blamed already; keeps the places of the others
		}
	}
	*into = out
}

func (d *decoder) each(p path, i *item, what string, read func(path, string, *item)) {
	if !d.want(p, i, what+", such as { a = 1 }", unstable.Table) {
		return
	}
	for _, key := range i.keys {
		read(p.with(key), key, i.table[key])
	}
}

// describe says what an item is, for "want …; got …".
func describe(i *item) string {
	switch i.kind {
	case unstable.String:
		return quote(i.text)
	case unstable.Table:
		return "a table"
	case unstable.ArrayTable:
		return "a list of sections"
	case unstable.Array:
		return "a list"
	case unstable.Bool, unstable.Integer, unstable.Float:
		return i.text
	}
	return "a date or time"
}

// closest is the one word that is a slip of the finger away from s, or "".
func closest(s string, words []string) string {
	if len(s) > 64 { // no slip of a finger, and not worth the comparison
		return ""
	}
	best, far := "", 3
	for _, w := range words {
		if n := distance(strings.ToLower(s), w); n < far && n < len(w)/2 {
			best, far = w, n
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
