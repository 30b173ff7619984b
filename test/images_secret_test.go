package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
	"fairslice/images"
	"fairslice/queue"
)

// socket is the address of a way to batchd with the person's own credentials: batchd asks the kernel who has connected.
func (p *person) socket() string {
	p.t.Helper()
	socket := filepath.Join(p.t.TempDir(), "as")
	l, err := net.Listen("unix", socket)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var open sync.WaitGroup
	open.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := p.dial()
			if err != nil {
				p.t.Error(err)
				_ = from.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
			open.Go(func() { _, _ = io.Copy(to, from); _ = to.Close() })
			open.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
		}
	})
	p.t.Cleanup(func() {
		end()
		_ = l.Close()
		open.Wait()
	})
	return "unix://" + socket
}

// api is the client of the API as the person.
func (p *person) api() *client.Users {
	p.t.Helper()
	u, err := client.NewUsers(client.Config{Address: p.socket(), Tries: 1})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(u.Close)
	return u
}

// dial connects to batchd as the person: the kernel tells whose thread did. The thread ends with its goroutine.
func (p *person) dial() (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	out := make(chan result)
	go func() {
		runtime.LockOSThread()
		uid := uintptr(p.uid)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			out <- result{nil, errno}
			return
		}
		conn, err := net.Dial("unix", strings.TrimPrefix(p.c.addr, "unix://"))
		out <- result{conn, err}
	}()
	r := <-out
	return r.conn, r.err
}

// attempts are what the API lets a user try with an image that he has a name for: to find it, and to add one of that name. Each gives
// what it was answered.
func attempts(ctx context.Context, u *client.Users) (finding, adding map[string]func(name string) string) {
	said := func(v any, err error) string { return fmt.Sprintf("%v, %v", v, err) }
	stream := func(call func(each func(*pb.ImageProgress) error) error) string {
		var got []string
		err := call(func(p *pb.ImageProgress) error { got = append(got, p.String()); return nil })
		return said(got, err)
	}
	change := func(c *pb.ChangeImageRequest) func(string) string {
		return func(name string) string { c.Name = name; return said(u.ChangeImage(ctx, c)) }
	}
	text := "mine"
	finding = map[string]func(string) string{
		"show":   func(name string) string { return said(u.Image(ctx, name)) },
		"remove": func(name string) string { return said(u.RemoveImage(ctx, name)) },
		"check": func(name string) string {
			return stream(func(each func(*pb.ImageProgress) error) error { return u.VerifyImage(ctx, name, each) })
		},
		"make public":      change(&pb.ChangeImageRequest{Visibility: "public"}),
		"make private":     change(&pb.ChangeImageRequest{Visibility: "private"}),
		"describe":         change(&pb.ChangeImageRequest{Description: &text}),
		"submit":           func(name string) string { return said(submit(ctx, u, queue.Spec{Image: name})) },
		"submit, writable": func(name string) string { return said(submit(ctx, u, queue.Spec{Image: name, Writable: true})) },
	}
	adding = map[string]func(string) string{}
	for how, replace := range map[string]bool{"": false, " in its place": true} {
		image := func(name string) *pb.NewImage { return &pb.NewImage{Name: name, Replace: replace} }
		adding["add"+how] = func(name string) string {
			return said(u.AddImage(ctx, &pb.AddImageRequest{Image: image(name), Size: 1, Upload: "x"}))
		}
		adding["import"+how] = func(name string) string {
			return stream(func(each func(*pb.ImageProgress) error) error {
				return u.ImportImage(ctx, &pb.ImportImageRequest{Image: image(name), Upload: "x", Digest: "sha256:" + strings.Repeat("0", 64)}, each)
			})
		}
		adding["pull"+how] = func(name string) string {
			return stream(func(each func(*pb.ImageProgress) error) error {
				return u.PullImage(ctx, &pb.PullImageRequest{Image: image(name), Url: "oras://127.0.0.1:1/x:1"}, each)
			})
		}
	}
	return finding, adding
}

func submit(ctx context.Context, u *client.Users, spec queue.Spec) (queue.Accepted, error) {
	spec.Command, spec.MinSlots, spec.MaxSlots, spec.SubCWD, spec.SubHost = "true", 1, 1, "/", "here"
	return u.Submit(ctx, queue.Submission{Token: rand.Text(), Spec: &spec, Script: []byte("true\n")})
}

// Whatever somebody tries with another's private image, its session, upload or request, by whatever he may know of it: he is answered
// what he would be if there were none. The page and the commands have no other way than this.
func TestNobodyLearnsOfAnothersImage(t *testing.T) {
	const tried = "AddImage ChangeImage DecideCommit ImportImage ListCommits ListImages PullImage RemoveImage RequestCommit ShowImage UploadImage VerifyImage"
	var calls []string
	for i, service := 0, reflect.TypeFor[pbconnect.ImagesHandler](); i < service.NumMethod(); i++ {
		calls = append(calls, service.Method(i).Name)
	}
	if got := strings.Join(calls, " "); got != tried {
		t.Errorf("the service has calls that are not tried here: %s", got)
	}
	c, ann, bob := accounts(t)
	ann.must("bimage add secret:1 " + ann.root("rootfs", nil, 1000))
	defer ann.must("bimage rm secret:1")
	s := &spying{t: t, ctx: t.Context(), ann: ann, anns: ann.api(), bobs: bob.api(), digest: ann.digest("secret:1")}
	var err error
	if s.image, err = s.anns.Image(s.ctx, "secret:1"); err != nil {
		t.Fatal(err)
	}
	s.byName()
	list, err := s.bobs.Images(s.ctx, false)
	s.silent("list", list, err)
	list, err = s.bobs.Images(s.ctx, true)
	s.denied("list everybody's", list, err)
	s.uploads()
	s.sessions()
	s.jobs(bob)
	s.asNode(bob)
	if i, err := s.anns.Image(s.ctx, "secret:1"); err != nil || i.String() != s.image.String() {
		t.Errorf("it was changed: %v, %v\nand was %s", i, err, s.image)
	}
	c.nothingLeft(t)
}

// spying is bob, who is after ann's image.
type spying struct {
	t          *testing.T
	ctx        context.Context
	ann        *person
	anns, bobs *client.Users
	image      *pb.Image
	digest     string // of the image, without sha256:
}

// silent says that an answer tells nothing of the image.
func (s *spying) silent(what string, v any, err error) {
	s.t.Helper()
	if text := fmt.Sprint(v, err); strings.Contains(text, "secret") || strings.Contains(text, s.digest) {
		s.t.Errorf("%s: %s", what, text)
	}
}

func (s *spying) denied(what string, v any, err error) {
	s.t.Helper()
	if s.silent(what, v, err); err == nil || err.Error() != "User permission denied" {
		s.t.Errorf("%s: %v", what, err)
	}
}

// byName tries all that names the image, against what is as long and names nothing.
func (s *spying) byName() {
	s.t.Helper()
	number, none := strconv.FormatInt(s.image.Id, 10), strconv.FormatInt(s.image.Id+1000, 10)
	zeros := strings.Repeat("0", len(s.digest))
	finding, adding := attempts(s.ctx, s.bobs)
	for real, absent := range map[string]string{
		"secret": "absent", "secret:1": "absent:1", s.image.Name: strings.Replace(s.image.Name, "secret", "absent", 1), "sha256:" + s.digest: "sha256:" + zeros,
		s.digest: zeros, number: none, s.ann.full(number): s.ann.full(none), s.ann.full(s.digest): s.ann.full(zeros),
	} {
		same := func(what string, try func(string) string, says ...string) {
			s.t.Helper()
			got, want := try(real), strings.ReplaceAll(try(absent), path.Base(absent), path.Base(real))
			if got != want || !slices.ContainsFunc(says, func(text string) bool { return strings.Contains(got, text) }) {
				s.t.Errorf("%s %s: %s\nand of what is not there: %s", what, real, got, want)
			}
		}
		for what, try := range finding {
			same(what, try, "No such image", "is no image name")
		}
		for what, try := range adding {
			switch {
			case strings.Contains(real, "/"):
				same(what, try, "images of their own only")
			case !strings.HasPrefix(what, "pull"): // a name without an owner is one of his own: he would get it
				same(what, try, "")
			}
		}
	}
}

// uploads tries to go on with an upload of hers that was cut: his of the same name is another.
func (s *spying) uploads() {
	s.t.Helper()
	const sent = "the beginning"
	if err := s.anns.UploadImage(s.ctx, "hers", 0, strings.NewReader(sent)); err != nil {
		s.t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(sent))
	image := &pb.NewImage{Name: "x"}
	for _, upload := range []string{"hers", "none"} {
		if at, err := s.bobs.AddImage(s.ctx, &pb.AddImageRequest{Image: image, Upload: upload, Size: 100, Packed: true}); at != 0 || err != nil {
			s.t.Errorf("upload %s begins at %d, %v", upload, at, err)
		}
		if err := s.bobs.UploadImage(s.ctx, upload, int64(len(sent)), strings.NewReader("and more")); err == nil || err.Error() != "the upload has 0 bytes: it cannot go on from 13" {
			s.t.Errorf("upload %s gone on with: %v", upload, err)
		}
	}
	// To go on has made his own, which is empty; of one that was never begun nothing can be made.
	for _, upload := range []string{"hers2", "none2"} {
		if upload == "hers2" {
			if err := s.anns.UploadImage(s.ctx, upload, 0, strings.NewReader(sent)); err != nil {
				s.t.Fatal(err)
			}
		}
		err := s.bobs.ImportImage(s.ctx, &pb.ImportImageRequest{Image: image, Upload: upload, Digest: string(images.DigestOf(sum[:]))}, func(*pb.ImageProgress) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), "nothing has been sent") {
			s.t.Errorf("upload %s made an image of: %v", upload, err)
		}
	}
	if at, err := s.anns.AddImage(s.ctx, &pb.AddImageRequest{Image: image, Upload: "hers", Size: 100, Packed: true}); at != int64(len(sent)) || err != nil {
		s.t.Errorf("her own upload is at %d, %v", at, err)
	}
}

// sessions tries to make an image of a session of hers, and to decide on her own request for one.
func (s *spying) sessions() {
	s.t.Helper()
	session, plain := s.ann.writable("sample"), s.ann.submit("-H true")
	asked, err := s.anns.RequestCommit(s.ctx, &pb.CommitRequest{Job: session, Name: "secret-too:1"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, job := range []string{session, plain} {
		for _, name := range []string{"mine:1", s.image.Name, s.ann.full("secret-too:1")} {
			if _, err := s.bobs.RequestCommit(s.ctx, &pb.CommitRequest{Job: job, Name: name, Replace: true}); err == nil || err.Error() != job+": No matching job found" {
				s.t.Errorf("commit of %s as %s: %v", job, name, err)
			}
		}
	}
	for _, id := range []int64{asked.Id, asked.Id + 1000} {
		for _, approve := range []bool{true, false} {
			got, err := s.bobs.DecideCommit(s.ctx, &pb.DecideCommitRequest{Id: id, Approve: approve})
			s.denied(fmt.Sprint("decide ", id), got, err)
		}
	}
	list, err := s.bobs.Commits(s.ctx, false)
	s.silent("requests", list, err)
	list, err = s.bobs.Commits(s.ctx, true)
	s.denied("everybody's requests", list, err)
	if list, err := s.anns.Commits(s.ctx, false); err != nil || len(list) == 0 || list[0].Id != asked.Id || list[0].State != "asked" {
		s.t.Errorf("the request was changed: %v, %v", list, err)
	}
	s.ann.c.must(s.t, "/", "badmin commits refuse "+strconv.FormatInt(asked.Id, 10))
	s.ann.must("bkill -s KILL " + session + "; bkill " + plain)
}

// jobs looks at jobs with the image, which everybody may, and at what became of them.
func (s *spying) jobs(bob *person) {
	s.t.Helper()
	waits, held := s.ann.submit("-image secret:1 -H true"), s.ann.submit("-image sample -H true")
	s.ann.must("bmod -image secret:1 " + held)
	ran := s.ann.submit("-image secret:1 -o /dev/null true")
	s.ann.wait(ran, "DONE")
	ids := strings.Join([]string{waits, held, ran}, " ")
	for _, line := range []string{"bjobs -u all -a -json", "bjobs -l " + ids, "bjobs -o 'jobid image' " + ids, "bwhy " + ids, "bwhy -json " + ids, "bhist -l " + ids, "bhist -json -l " + ids, "bacct -l " + ids, "bacct -u all -json", "breport -by image"} {
		out, errs, code := bob.try(line)
		if code != 0 && !strings.HasPrefix(line, "breport") {
			s.t.Errorf("%s: %d, %s%s", line, code, out, errs)
		}
		s.silent(line, out+errs, nil)
	}
	for _, line := range []string{"bjobs -o 'jobid image' " + ids, "bhist -l " + ids} {
		if out := s.ann.must(line); strings.Count(out, "secret:1") < 3 {
			s.t.Errorf("%s, of one's own: %s", line, out)
		}
	}
	if out := bob.must("bjobs -o 'jobid image' " + ids); strings.Count(out, "(private)") != 3 {
		s.t.Errorf("bob is told %s", out)
	}
	s.ann.must("bkill " + waits + " " + held)
}

// asNode tries the nodes' own way to the files, which takes no user.
func (s *spying) asNode(bob *person) {
	s.t.Helper()
	node, err := client.NewNode(client.Config{Address: bob.socket(), Tries: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	var file bytes.Buffer
	if err := node.Fetch(s.ctx, images.Digest("sha256:"+s.digest), 0, &file); err == nil || !strings.Contains(err.Error(), "only root and the batch daemon's user may be a node") || file.Len() > 0 {
		s.t.Errorf("the file as a node: %d bytes, %v", file.Len(), err)
	}
}
