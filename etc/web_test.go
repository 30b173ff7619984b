package etc

import (
	"strings"
	"testing"
)

func TestWebAddress(t *testing.T) {
	for _, row := range []struct{ file, want string }{
		{"", ""},
		{"listen = \"127.0.0.1:8080\"", "http://127.0.0.1:8080"},
		{"listen = \"localhost:8080\"\nurl = \"http://localhost:8080/\"", "http://localhost:8080"},
		{"listen = \":443\"\ntls_cert = \"/a\"\ntls_key = \"/b\"", "https://head1:443"},
		{"listen = \"0.0.0.0:8080\"\nurl = \"https://batch.example.org\"", "https://batch.example.org"},
	} {
		c, err := Parse("x.toml", []byte("[web]\n"+row.file))
		if err != nil {
			t.Errorf("%q: %v", row.file, err)
		} else if got := c.Web.Address("head1"); got != row.want {
			t.Errorf("%q: the page is at %q, want %q", row.file, got, row.want)
		}
	}
}

func TestWebMistakes(t *testing.T) {
	for _, row := range []struct{ file, want string }{
		{`listen = "8080"`, "web.listen: "},
		{`listen = ":8080"`, "in clear"},
		{`listen = "192.0.2.1:8080"`, "in clear"},
		{"listen = \"127.0.0.1:8080\"\nurl = \"batch.example.org\"", "web.url: want an address"},
		{"listen = \"127.0.0.1:8080\"\nurl = \"https://batch.example.org/page\"", "nothing behind the host"},
		{"listen = \"127.0.0.1:8080\"\nurl = \"javascript:alert(1)\"", "web.url: want an address"},
		{"listen = \"127.0.0.1:8080\"\ntls_cert = \"/a\"", "both, or neither"},
	} {
		if _, err := Parse("x.toml", []byte("[web]\n"+row.file)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.file, err, row.want)
		}
	}
}
