package command

import (
	"context"
	"io"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

// ImageUsers is what bimage asks of batchd; see package client.
type ImageUsers interface {
	Images(ctx context.Context, all bool) ([]*pb.Image, error)
	Image(ctx context.Context, name string) (*pb.Image, error)
	RemoveImage(ctx context.Context, name string) (*pb.Image, error)
	ChangeImage(context.Context, *pb.ChangeImageRequest) (*pb.Image, error)
	AddImage(context.Context, *pb.AddImageRequest) (offset int64, err error)
	UploadImage(ctx context.Context, upload string, offset int64, from io.Reader) error
	ImportImage(context.Context, *pb.ImportImageRequest, func(*pb.ImageProgress) error) error
	PullImage(context.Context, *pb.PullImageRequest, func(*pb.ImageProgress) error) error
	VerifyImage(ctx context.Context, name string, each func(*pb.ImageProgress) error) error
	RequestCommit(context.Context, *pb.CommitRequest) (*pb.Commit, error)
	Commits(ctx context.Context, all bool) ([]*pb.Commit, error)
	DecideCommit(context.Context, *pb.DecideCommitRequest) (*pb.Commit, error)
}

func bimageCommand() *command {
	return &command{run: bimage, Command: option.Command{
		Name: "bimage", Usage: "[command] [options] [name ...]",
		Summary: "lists, adds and shares the images that jobs run in (bsub -image)",
		Example: `bimage                                     the images that you may use
bimage show python:3.11
bimage add python:3.11 python.sif          yours alone; ./rootfs/ or an archive will do, too
bimage add -group students tools:1 tools.tar.gz
bimage pull cuda:12 docker://nvidia/cuda:12.4.1-base-ubuntu22.04
bsub -image python:3.11 python3 train.py

list                               the images that you may use
show NAME ...                      all about some
add NAME[:TAG] FILE|DIRECTORY      from a SIF file, an OCI or docker archive, a root file system
pull NAME[:TAG] URL                from docker://, oras:// or library://, on the batch host
build NAME[:TAG] FILE.def          run apptainer build here, and add what it makes
rm NAME ...                        jobs that were submitted with it keep it
share NAME                         -public, -private or -group; -d changes the description
check NAME|FILE                    read it again: digest, labels, what it needs
commit JOB NAME[:TAG]              make an image of a session (bsub -writable)
commits                            what became of such requests`,
		Options: []option.Option{
			{Name: "d", Value: option.Required, Arg: "TEXT", Help: "description, one line", Group: "add, pull, build, share, commit"},
			{Name: "f", Help: "replace an image of the same name"},
			{Name: "private", Help: "only you see it (where nothing is said)"},
			{Name: "group", Value: option.Required, Arg: "GROUPS", Help: `groups that see it, too: "physics students"`},
			{Name: "public", Help: "everybody sees it"},
			{Name: "site", Help: "it is the site's, without an owner (administrators)"},
			{Name: "all", Help: "list, commits: everybody's (administrators)", Group: "Listings"}, optJSON, optNoHead,
		},
	}}
}

func bimage(c *call, p *option.Parsed) int {
	word, names := "list", p.Operands
	if len(names) > 0 {
		word, names = names[0], names[1:]
	}
	run, ok := map[string]func(*call, *option.Parsed, []string) int{
		"list": listImages, "show": showImages, "add": addImage, "pull": pullImage, "build": buildImage, "rm": removeImages,
		"share": shareImage, "check": checkImage, "commit": commitSession, "commits": listCommits,
	}[word]
	if !ok {
		return c.fail("bimage: " + show.Clean(word) + ": no such command (bimage -h lists them)")
	}
	return run(c, p, names)
}

func listImages(c *call, p *option.Parsed, names []string) int {
	if len(names) > 0 {
		return c.fail("bimage: list takes no names; bimage show " + show.Clean(names[0]) + " shows one")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	list, err := u.Images(c.ctx, p.Has("all"))
	if err != nil {
		return c.failErr(err)
	}
	if p.Has("json") {
		return c.document("IMAGES", nil, len(list), func(doc *show.JSON, i int) { show.ImageRecord(doc, list[i], &c.style) })
	}
	if len(list) == 0 {
		c.say("No image found (bimage add makes one)")
		return 0
	}
	c.write(show.Images(nil, list, !p.Has("noheader"), &c.style))
	return 0
}

func showImages(c *call, p *option.Parsed, names []string) int {
	if len(names) == 0 {
		return c.fail("bimage: show needs the name of an image")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	var found []*pb.Image
	var missing []string
	for _, name := range names {
		i, err := u.Image(c.ctx, name)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		found = append(found, i)
	}
	if p.Has("json") {
		return c.document("IMAGES", missing, len(found), func(doc *show.JSON, i int) { show.ImageRecord(doc, found[i], &c.style) })
	}
	for k, i := range found {
		if k > 0 {
			c.print("\n")
		}
		c.write(show.ImageLong(nil, i, &c.style))
	}
	return c.missing(missing, len(found), "")
}

func removeImages(c *call, _ *option.Parsed, names []string) int {
	if len(names) == 0 {
		return c.fail("bimage: rm needs the name of an image")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	code := 0
	for _, name := range names {
		i, err := u.RemoveImage(c.ctx, name)
		if err != nil {
			code = c.failErr(err)
			continue
		}
		c.print("Image " + show.Clean(i.Name) + " is removed. Jobs that were submitted with it keep it.\n")
	}
	return code
}

func shareImage(c *call, p *option.Parsed, names []string) int {
	if len(names) != 1 {
		return c.fail("bimage: share needs the name of one image, as in: bimage share -group students tools:1")
	}
	visibility, groups, ok := c.visibility(p)
	if !ok {
		return failed
	}
	req := &pb.ChangeImageRequest{Name: names[0], Visibility: visibility, Groups: groups}
	if p.Has("d") {
		text := p.Last("d")
		req.Description = &text
	}
	if visibility == "" && !p.Has("d") {
		return c.fail("bimage: share needs -public, -private, -group GROUPS or -d TEXT")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	i, err := u.ChangeImage(c.ctx, req)
	if err != nil {
		return c.failErr(err)
	}
	c.print("Image " + show.Clean(i.Name) + " is " + show.Clean(seenBy(i)) + "\n")
	return 0
}

func seenBy(i *pb.Image) string {
	switch i.GetVisibility() {
	case "groups":
		return "visible to its owner, and to groups " + strings.Join(i.Groups, ", ")
	case "public":
		return "visible to everybody"
	}
	return "visible to its owner only"
}

// visibility is what the options say of who sees an image; "" where they say nothing.
func (c *call) visibility(p *option.Parsed) (word string, groups []string, ok bool) {
	given := 0
	for _, o := range []struct{ option, word string }{{"private", "private"}, {"public", "public"}, {"group", "groups"}} {
		if p.Has(o.option) {
			word = o.word
			given++
		}
	}
	if given > 1 {
		c.say("bimage: -private, -public and -group: want one of them")
		return "", nil, false
	}
	groups = strings.FieldsFunc(strings.Join(p.All("group"), " "), func(r rune) bool { return r == ' ' || r == ',' })
	if word == "groups" && len(groups) == 0 {
		c.say("bimage: -group needs the name of a group")
		return "", nil, false
	}
	return word, groups, true
}
