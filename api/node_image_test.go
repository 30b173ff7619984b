package api_test

import (
	"bytes"
	"io"
	"io/fs"
	"strings"
	"testing"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/images"
)

// oneFile is a depot with one image.
type oneFile struct {
	digest images.Digest
	data   string
}

func (f oneFile) OpenImage(d images.Digest) (io.ReadSeekCloser, error) {
	if d != f.digest {
		return nil, fs.ErrNotExist
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader(f.data), io.NopCloser(nil)}, nil
}

// Files of images are for nodes: a user who knows a digest gets nothing, and is not told whether there is such a file.
func TestFilesOfImagesAreForNodes(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	file := oneFile{images.Digest("sha256:" + strings.Repeat("ab", 32)), "the image"}
	s.hub.Files = file
	fetch := func(c client.Config, d images.Digest) (string, error) {
		t.Helper()
		n, err := client.NewNode(c, quiet())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		err = n.Fetch(deadline(t), d, 4, &b)
		return b.String(), err
	}
	if got, err := fetch(s.tls(api.NodeToken, "n1"), file.digest); got != "image" || err != nil {
		t.Errorf("a node: %q, %v", got, err)
	}
	absent := images.Digest("sha256:" + strings.Repeat("cd", 32))
	if got, err := fetch(s.tls(api.NodeToken, "n1"), absent); got != "" || err == nil || !strings.Contains(err.Error(), "no image has the digest") {
		t.Errorf("a node, of a file that is not there: %q, %v", got, err)
	}
	none := s.tls(api.UserToken, me(t))
	none.Token = ""
	for what, c := range map[string]client.Config{"a user": s.tls(api.UserToken, me(t)), "nobody": none} {
		for _, d := range []images.Digest{file.digest, absent} {
			if got, err := fetch(c, d); got != "" || err == nil || !strings.Contains(err.Error(), "a node needs a join token") {
				t.Errorf("%s, %s: %q, %v", what, d, got, err)
			}
		}
	}
}
