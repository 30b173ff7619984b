package sif

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"fairslice/images"
)

// blobs are the files of an OCI layout or of a docker archive, by name.
type blobs interface {
	open(name string) (io.ReadCloser, int64, error)
}

// dirBlobs are files below a directory.
type dirBlobs struct{ root *os.Root }

func (d dirBlobs) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// tarBlobs are files in a tar archive that is not packed.
type tarBlobs struct {
	file  *os.File
	files map[string]spot
}

// spot is where a file lies in the archive, or of which other it is a link.
type spot struct {
	at, size int64
	link     string
}

// indexTar finds the files of a tar archive without reading them.
func indexTar(f *os.File, limits Limits) (tarBlobs, error) {
	b := tarBlobs{f, map[string]spot{}}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return b, err
	}
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, fmt.Errorf("read archive: %w", err)
		}
		if len(b.files) >= limits.withDefaults().Entries {
			return b, fmt.Errorf("more than %d entries", len(b.files))
		}
		name := path.Clean(h.Name)
		e, _ := tarEntry(h)
		if _, twice := b.files[name]; twice && e.kind != isDir {
			return b, refused(h.Name, "the name comes twice")
		}
		switch {
		case e.kind == isFile && e.sparse:
			return b, refused(h.Name, "a sparse file")
		case e.kind == isFile:
			at, err := f.Seek(0, io.SeekCurrent) // the reader takes exactly the headers
			if err != nil {
				return b, err
			}
			b.files[name] = spot{at: at, size: h.Size}
		case e.kind == isSymlink: // docker saved equal layers so
			b.files[name] = spot{link: path.Join(path.Dir(name), h.Linkname)}
		case e.kind == isHardLink:
			b.files[name] = spot{link: path.Clean(h.Linkname)}
		}
	}
}

func (b tarBlobs) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	for range 8 {
		p, ok := b.files[name]
		if !ok {
			break
		}
		if p.link == "" {
			return io.NopCloser(io.NewSectionReader(b.file, p.at, p.size)), p.size, nil
		}
		name = p.link
	}
	return nil, 0, fmt.Errorf("open %.200q: %w", name, fs.ErrNotExist)
}

// readBlob reads a file that is a text; digest may be empty.
func readBlob(b blobs, name string, digest images.Digest) ([]byte, error) {
	r, _, err := b.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxMetadata {
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxMetadata)
	}
	sum := sha256.Sum256(data)
	if got := images.DigestOf(sum[:]); digest != "" && got != digest {
		return nil, fmt.Errorf("%s is damaged: its digest is %s", name, got)
	}
	return data, nil
}

// descriptor names a blob of an OCI image.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Platform  *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

func (d descriptor) blob() (name string, digest images.Digest, err error) {
	if digest, err = images.ParseDigest(d.Digest); err != nil {
		return "", "", err
	}
	return "blobs/sha256/" + digest.Hex(), digest, nil
}

// manifest is an OCI index or an OCI manifest: one has Manifests, the other Config and Layers.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// openOCI reads the manifest and config of the image for arch in an OCI layout.
func openOCI(b blobs, arch string) ([]layer, config, error) {
	data, err := readBlob(b, "index.json", "")
	if err != nil {
		return nil, config{}, err
	}
	var m manifest
	for range 4 { // an index can name indexes
		m = manifest{}
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, config{}, fmt.Errorf("read OCI index or manifest: %w", err)
		}
		if len(m.Manifests) == 0 {
			break
		}
		d, err := choose(m.Manifests, arch)
		if err != nil {
			return nil, config{}, err
		}
		name, digest, err := d.blob()
		if err != nil {
			return nil, config{}, fmt.Errorf("read OCI index: %w", err)
		}
		if data, err = readBlob(b, name, digest); err != nil {
			return nil, config{}, err
		}
	}
	name, digest, err := m.Config.blob()
	if err != nil {
		return nil, config{}, fmt.Errorf("OCI manifest: config: %w", err)
	}
	if data, err = readBlob(b, name, digest); err != nil {
		return nil, config{}, err
	}
	var names []string
	for i, l := range m.Layers {
		name, _, err := l.blob()
		if err != nil {
			return nil, config{}, fmt.Errorf("OCI manifest: layer %d: %w", i+1, err)
		}
		if strings.Contains(l.MediaType, "encrypted") {
			return nil, config{}, fmt.Errorf("OCI manifest: layer %d is encrypted", i+1)
		}
		names = append(names, name)
	}
	return openLayers(b, data, names, arch)
}

// choose takes the image for an architecture; the only one counts whatever it says, its config is asked later.
func choose(list []descriptor, arch string) (descriptor, error) {
	var fit []descriptor
	var others []string
	for _, d := range list {
		switch p := d.Platform; {
		case p == nil, p.OS == "linux" && p.Architecture == arch:
			fit = append(fit, d)
		default:
			others = append(others, fmt.Sprintf("%.40s/%.40s", p.OS, p.Architecture))
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(list) == 1:
		return list[0], nil
	case len(fit) == 0:
		return descriptor{}, fmt.Errorf("no image for linux/%s; there are %s", arch, strings.Join(others, ", "))
	}
	var names []string
	for _, d := range fit {
		names = append(names, fmt.Sprintf("%.80q", d.Annotations["org.opencontainers.image.ref.name"]))
	}
	return descriptor{}, fmt.Errorf("%d images for linux/%s (%s); save the one that is wanted alone", len(fit), arch, strings.Join(names, ", "))
}

// openDocker reads what 'docker save' writes.
func openDocker(b blobs, arch string) ([]layer, config, error) {
	data, err := readBlob(b, "manifest.json", "")
	if err != nil {
		return nil, config{}, err
	}
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, config{}, fmt.Errorf("read manifest.json: %w", err)
	}
	if len(list) != 1 {
		var tags []string
		for _, m := range list {
			tags = append(tags, m.RepoTags...)
		}
		return nil, config{}, fmt.Errorf("%d images (%.500s); save the one that is wanted alone", len(list), strings.Join(tags, ", "))
	}
	if data, err = readBlob(b, list[0].Config, ""); err != nil {
		return nil, config{}, err
	}
	return openLayers(b, data, list[0].Layers, arch)
}

// openLayers reads the config that both formats share. Each layer is held against the digest that it names.
func openLayers(b blobs, data []byte, names []string, arch string) ([]layer, config, error) {
	var raw struct {
		Architecture string    `json:"architecture"`
		OS           string    `json:"os"`
		Created      time.Time `json:"created"`
		Config       struct {
			Env        []string          `json:"Env"`
			Entrypoint []string          `json:"Entrypoint"`
			Cmd        []string          `json:"Cmd"`
			WorkingDir string            `json:"WorkingDir"`
			Labels     map[string]string `json:"Labels"`
		} `json:"config"`
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&raw); err != nil {
		return nil, config{}, fmt.Errorf("read image config: %w", err)
	}
	switch {
	case raw.OS != "" && raw.OS != "linux":
		return nil, config{}, fmt.Errorf("an image for %.40q; want linux", raw.OS)
	case raw.Architecture != arch:
		return nil, config{}, fmt.Errorf("an image for architecture %.40q; want %s", raw.Architecture, arch)
	case len(raw.RootFS.DiffIDs) != len(names):
		return nil, config{}, fmt.Errorf("image config: %d digests for %d layers", len(raw.RootFS.DiffIDs), len(names))
	case len(names) == 0:
		return nil, config{}, errors.New("an image without layers; what holds data only is no image to run")
	case len(names) > maxLayers:
		return nil, config{}, fmt.Errorf("%d layers; at most %d are possible", len(names), maxLayers)
	}
	c := config{arch: raw.Architecture, created: raw.Created, env: raw.Config.Env, entrypoint: raw.Config.Entrypoint,
		cmd: raw.Config.Cmd, labels: raw.Config.Labels}
	if path.IsAbs(raw.Config.WorkingDir) && raw.Config.WorkingDir != "/" {
		c.workdir = raw.Config.WorkingDir
	}
	var layers []layer
	for i, name := range names {
		digest, err := images.ParseDigest(raw.RootFS.DiffIDs[i])
		if err != nil {
			return nil, config{}, fmt.Errorf("image config: layer %d: %w", i+1, err)
		}
		r, size, err := b.open(name)
		if err != nil {
			return nil, config{}, fmt.Errorf("layer %d: %w", i+1, err)
		}
		r.Close()
		layers = append(layers, tarLayer{length: size, digest: digest, open: func() (io.ReadCloser, error) {
			r, _, err := b.open(name)
			return r, err
		}})
	}
	return layers, c, nil
}

const maxLayers = 512 // Docker makes at most 127
