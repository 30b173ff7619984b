package main

import (
	"fmt"

	"fairslice/api"
	"fairslice/etc"
	"fairslice/images"
	"fairslice/images/depot"
	"fairslice/images/sif"
	"fairslice/queue"
)

// vouched says why a file may not become an image; nil where it may. Where the site takes signed images only, nobody is above that
// for a file that came as it is: it can be signed, or its signer's key trusted. What batchd has made itself cannot have been signed, and
// would be the way around: from a user it is refused, and an administrator who adds it vouches for it.
func (b *backend) vouched(by queue.Identity, ref images.Ref, file depot.Stored) error {
	switch {
	case !b.cfg.Load().Catalogue.RequireSignature, len(file.Trust.By) > 0, file.Made && by.Admin:
		return nil
	case file.Made:
		return &api.Error{Code: api.Denied, Msg: fmt.Sprintf("%s: Only signed SIF files are taken here, and of anything else batchd makes the file, which nobody has signed. "+
			"Build a SIF file, have it signed with a key that is trusted here (apptainer sign), and add that; or an administrator adds this one", ref)}
	}
	return &api.Error{Code: api.Denied, Msg: fmt.Sprintf("%s: Only SIF files are taken here that a trusted key has signed, all of each; of this one: %s. "+
		"Have it signed by somebody whose key is trusted here (apptainer sign), and add it again; an administrator can trust another key (trusted_keys in [images])", ref, file.Trust.Why)}
}

// toBeMade is a file that batchd would make.
var toBeMade = depot.Stored{Result: sif.Result{Made: true}}

// vouchedFor is vouched for a session that becomes an image: who approved that vouches for it. Nobody has where the site asked nobody
// when the request was made, and takes signed images only since.
func vouchedFor(cfg *etc.Config, r *images.Commit) error {
	if !cfg.Catalogue.RequireSignature || r.DecidedBy != "" {
		return nil
	}
	return depot.Refused{Text: "only signed images are taken here now, or what an administrator vouches for, and this request was approved by nobody: ask again (bimage commit)"}
}
