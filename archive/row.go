package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Row is one row of a table: its columns in the order of the file, and what they hold as the database would print it, nil for null.
type Row struct {
	Table   Table
	Columns []string
	Values  []*string
}

// ParseRow reads a row: one JSON object of texts, numbers, booleans and nulls, each name once.
func ParseRow(t Table, data []byte) (Row, error) {
	r := Row{Table: t}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return r, fmt.Errorf("a row is a JSON object; got %.40q", data)
	}
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return r, unfinished(err)
		}
		name, ok := tok.(string)
		switch {
		case !ok || name == "" || len(name) > 63: // PostgreSQL's bound of a name
			return r, fmt.Errorf("a column is named %.80q", fmt.Sprint(tok))
		case seen[name]:
			return r, fmt.Errorf("the column %q is there twice", name)
		}
		seen[name] = true
		if tok, err = d.Token(); err != nil {
			return r, unfinished(err)
		}
		value, err := valueOf(tok)
		if err != nil {
			return r, fmt.Errorf("the column %q: %w", name, err)
		}
		r.Columns, r.Values = append(r.Columns, name), append(r.Values, value)
	}
	if _, err := d.Token(); err != nil {
		return r, unfinished(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return r, fmt.Errorf("more follows the row")
	}
	if len(r.Columns) == 0 {
		return r, fmt.Errorf("a row has no columns")
	}
	return r, nil
}

func unfinished(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func valueOf(tok json.Token) (*string, error) {
	var s string
	switch v := tok.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			return nil, fmt.Errorf("a NUL, which the database cannot hold")
		}
		s = v
	case json.Number:
		s = v.String()
	case bool:
		s = fmt.Sprint(v)
	default:
		return nil, fmt.Errorf("want a text, a number, true, false or null; got %v", v)
	}
	return &s, nil
}
