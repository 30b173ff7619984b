package main

import (
	"strings"
	"testing"

	"fairslice/etc"
	"fairslice/images"
	"fairslice/images/depot"
	"fairslice/images/sif"
	"fairslice/queue"
)

func TestVouched(t *testing.T) {
	ref := images.Ref{Owner: "ada", Name: "tools", Tag: "1"}
	signed := depot.Stored{Trust: sif.Trust{By: []string{"Ada (8BE1)"}}}
	bare := depot.Stored{Trust: sif.Trust{Why: "it is not signed"}}
	for _, row := range []struct {
		what    string
		require bool
		admin   bool
		file    depot.Stored
		want    string // "" where it may
	}{
		{"nothing is required", false, false, bare, ""},
		{"nothing is required of what is made", false, false, toBeMade, ""},
		{"a signed file", true, false, signed, ""},
		{"one that is not", true, false, bare, "ada/tools:1: Only SIF files are taken here that a trusted key has signed, all of each; of this one: it is not signed. Have it signed"},
		{"one that is not, of an administrator", true, true, bare, "of this one: it is not signed"},
		{"what is made, of a user", true, false, toBeMade, "ada/tools:1: Only signed SIF files are taken here, and of anything else batchd makes the file"},
		{"what is made, of an administrator", true, true, toBeMade, ""},
	} {
		cfg := &etc.Config{}
		cfg.Catalogue.RequireSignature = row.require
		b := &backend{}
		b.cfg.Store(cfg)
		err := b.vouched(queue.Identity{User: "ada", Admin: row.admin}, ref, row.file)
		if err == nil && row.want != "" || err != nil && (row.want == "" || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.what, err, row.want)
		}
	}
}

func TestVouchedFor(t *testing.T) {
	for _, row := range []struct {
		require bool
		by      string
		want    bool
	}{{false, "", true}, {false, "root", true}, {true, "root", true}, {true, "", false}} {
		cfg := &etc.Config{}
		cfg.Catalogue.RequireSignature = row.require
		if err := vouchedFor(cfg, &images.Commit{DecidedBy: row.by}); (err == nil) != row.want {
			t.Errorf("%+v: %v", row, err)
		}
	}
}
