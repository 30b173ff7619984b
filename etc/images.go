package etc

// Catalogue is [images]: the images that batchd keeps and gives to the nodes.
type Catalogue struct {
	Dir       string `toml:"dir"`                         // "" for images in state_dir
	UserQuota int64  `toml:"user_quota" as:"size or 0"`   // bytes of one user's images together, 0 for no limit
	UserCount int    `toml:"user_count"`                  // images of one user, 0 for no limit
	MaxSize   int64  `toml:"max_size" as:"size or 0"`     // bytes of one image's file, 0 for no limit
	MaxRoot   int64  `toml:"max_unpacked" as:"size or 0"` // bytes of what is unpacked for one import
	Publish   string `toml:"publish"`                     // who may make images public: admins, users
	Approve   string `toml:"approve"`                     // who approves that a session becomes an image: admin, auto
	Pull      bool   `toml:"pull"`                        // bimage pull may fetch from registries
	Shared    string `toml:"shared"`                      // where nodes see Dir, "" for nowhere

	TrustedKeys      string `toml:"trusted_keys"`      // a directory of public keys, "" for none
	RequireSignature bool   `toml:"require_signature"` // what one of them has not signed, only administrators vouch for
}

func newCatalogue() Catalogue {
	return Catalogue{UserQuota: 100 << 30, UserCount: 50, MaxSize: 50 << 30, MaxRoot: 200 << 30, Publish: "admins", Approve: "admin", Pull: true}
}

func (v *checker) catalogue(c *Catalogue) {
	v.absolute(path{"images", "dir"}, c.Dir, false)
	v.absolute(path{"images", "shared"}, c.Shared, false)
	v.between(path{"images", "user_count"}, c.UserCount, 0, 1_000_000)
	v.oneOf(path{"images", "publish"}, c.Publish, "admins", "users")
	v.oneOf(path{"images", "approve"}, c.Approve, "admin", "auto")
	v.absolute(path{"images", "trusted_keys"}, c.TrustedKeys, false)
	switch {
	case !c.RequireSignature:
	case c.TrustedKeys == "":
		v.say(path{"images", "require_signature"}, "needs trusted_keys, the directory of the keys that may sign")
	case c.Approve == "auto":
		v.say(path{"images", "require_signature"}, "a session that becomes an image is not signed, so an administrator must vouch for it: needs approve = \"admin\"")
	}
}
