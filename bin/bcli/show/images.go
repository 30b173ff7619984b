package show

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/images"
)

// Size is a file's size in few letters: "45.3M".
func Size(bytes int64) string { return hostSize(bytes) }

// FetchText says how far the image of a job is that waits for it on its node; "" for any other.
func FetchText(j *pb.Job) string {
	f := j.GetFetch()
	if f == nil || f.Total <= 0 {
		return ""
	}
	return fmt.Sprintf("Image %s is being fetched to %s: %d %%, %s of %s", j.GetSpec().GetImage(), f.Node,
		100*min(f.Done, f.Total)/f.Total, hostSize(f.Done), hostSize(f.Total))
}

// Images appends the table of bimage list, as wide as its names need.
func Images(b []byte, list []*pb.Image, head bool, st *Style) []byte {
	rows := [][]string{}
	if head {
		rows = append(rows, []string{"NAME", "TAG", "OWNER", "SIZE", "VISIBLE", "ADDED", "DESCRIPTION"})
	}
	for _, i := range list {
		rows = append(rows, imageRow(i, st))
	}
	var widths [7]int
	for _, r := range rows {
		for k, text := range r {
			widths[k] = max(widths[k], width(text))
		}
	}
	for _, r := range rows {
		for k, text := range r[:6] {
			if k == 3 {
				b = Right(b, text, widths[k])
			} else {
				b = Left(b, text, widths[k])
			}
			b = append(b, "  "...)
		}
		b = append(append(b, r[6]...), '\n')
	}
	return b
}

func imageRow(i *pb.Image, st *Style) []string {
	owner, name, tag := imageName(i)
	row := []string{Clean(name), Clean(tag), Clean(dash(owner)), hostSize(i.GetSize()), Clean(visible(i)), "-", Clean(dash(i.GetDescription()))}
	switch {
	case i.GetFile() != "":
		row[3], row[6] = "-", "on nodes: "+Clean(i.File)
	case i.GetRemoved() != 0:
		row[4] = "(removed)"
		fallthrough
	default:
		row[5] = st.at(i.GetAdded()).Format("2006-01-02 15:04")
	}
	return row
}

func imageName(i *pb.Image) (owner, name, tag string) {
	ref, err := images.ParseRef(i.GetName())
	if err != nil { // of a newer batchd
		return "", i.GetName(), ""
	}
	return ref.Owner, ref.Name, ref.Tag
}

func visible(i *pb.Image) string {
	if images.Visibility(i.GetVisibility()) == images.ToGroups {
		return strings.Join(i.Groups, ",")
	}
	return i.GetVisibility()
}

// ImageRecord adds an image to a document.
func ImageRecord(doc *JSON, i *pb.Image, st *Style) {
	owner, name, tag := imageName(i)
	doc.Open()
	doc.String("FULL_NAME", i.GetName())
	doc.String("NAME", name)
	doc.String("TAG", tag)
	doc.String("OWNER", owner)
	doc.String("DIGEST", i.GetDigest())
	doc.Int("SIZE_BYTES", i.GetSize())
	doc.String("ARCH", i.GetArch())
	doc.String("VISIBILITY", i.GetVisibility())
	doc.List("GROUPS", i.GetGroups())
	doc.String("DESCRIPTION", i.GetDescription())
	doc.String("FILE", i.GetFile())
	doc.String("SOURCE", i.GetSource())
	doc.List("SIGNED_BY", i.GetSigned())
	doc.String("ADDED", imageTime(i.GetAdded(), st))
	doc.String("ADDED_BY", i.GetBy())
	doc.String("REMOVED", imageTime(i.GetRemoved(), st))
	keys := labelKeys(i)
	doc.Each("LABELS", len(keys), func(k int) {
		doc.String("NAME", keys[k])
		doc.String("VALUE", i.Labels[keys[k]])
	})
	doc.Close()
}

func imageTime(ns int64, st *Style) string {
	if ns == 0 {
		return ""
	}
	return st.RFC3339(ns)
}

func labelKeys(i *pb.Image) []string {
	keys := make([]string, 0, len(i.GetLabels()))
	for k := range i.GetLabels() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ImageLong appends all about an image.
func ImageLong(b []byte, i *pb.Image, st *Style) []byte {
	line := func(title, text string) {
		if text != "" {
			b = append(append(append(Left(b, title+":", 14), ' '), Clean(text)...), '\n')
		}
	}
	line("Image", i.GetName())
	if i.GetFile() != "" {
		line("File", i.File+" (on the nodes, by the configuration)")
		return b
	}
	line("Digest", i.GetDigest())
	line("Size", fmt.Sprintf("%s (%d bytes)", hostSize(i.GetSize()), i.GetSize()))
	line("Architecture", i.GetArch())
	switch images.Visibility(i.GetVisibility()) {
	case images.Public:
		line("Visible to", "everybody")
	case images.ToGroups:
		line("Visible to", "groups "+strings.Join(i.Groups, ", "))
	default:
		line("Visible to", "its owner")
	}
	line("Added", st.CTime(i.GetAdded())+" by "+i.GetBy()+", from "+i.GetSource())
	line("Signed by", strings.Join(i.GetSigned(), ", "))
	if i.GetRemoved() != 0 {
		line("Removed", st.CTime(i.Removed)+"; jobs still need it")
	}
	line("Description", i.GetDescription())
	LabelLines(i.GetLabels(), line)
	for _, k := range labelKeys(i) {
		line("Label", k+" = "+i.Labels[k])
	}
	return b
}

// LabelLines says what an image's labels mean: its apps, and what it needs.
func LabelLines(raw map[string]string, line func(title, text string)) {
	l, err := images.ParseLabels(raw)
	if err != nil {
		line("Labels", "not understood: "+err.Error())
		return
	}
	var apps []string
	for _, a := range l.Apps {
		ports := make([]string, len(a.Ports))
		for k, p := range a.Ports {
			ports[k] = strconv.Itoa(p)
		}
		apps = append(apps, a.Name+" ("+string(a.Proto)+", port "+strings.Join(ports, " and ")+")")
	}
	line("Apps", strings.Join(apps, ", "))
	line("At least", resources(l.Min))
	line("At most", resources(l.Max))
	line("Core count in", strings.Join(l.CoreCountEnv, ", "))
}

func resources(r images.Resources) string {
	var out []string
	if r.CPU > 0 {
		out = append(out, strconv.Itoa(r.CPU)+" cores")
	}
	if r.Memory > 0 {
		out = append(out, hostSize(r.Memory)+" memory")
	}
	if r.Shmem > 0 {
		out = append(out, hostSize(r.Shmem)+" /dev/shm")
	}
	if r.FGPU > 0 {
		out = append(out, r.FGPU.String()+" fGPU")
	}
	if r.GPUs > 0 {
		out = append(out, strconv.Itoa(r.GPUs)+" GPUs")
	}
	return strings.Join(out, ", ")
}

// Commits appends the table of bimage commits.
func Commits(b []byte, list []*pb.Commit, head bool, st *Style) []byte {
	if head {
		b = append(b, "ID     JOB          IMAGE                          ASKED             STATE     NOTE\n"...)
	}
	for _, c := range list {
		b = append(LeftLong(b, strconv.FormatInt(c.GetId(), 10), 6), ' ')
		b = append(LeftLong(b, CommitJob(c), 12), ' ')
		b = append(LeftLong(b, Clean(c.GetName()), 30), ' ')
		b = append(LeftLong(b, st.at(c.GetAsked()).Format("2006-01-02 15:04"), 17), ' ')
		b = append(LeftLong(b, c.GetState(), 9), ' ')
		b = append(append(b, Clean(commitNote(c))...), '\n')
	}
	return b
}

// CommitJob is the session of a request: JOB or JOB[INDEX].
func CommitJob(c *pb.Commit) string {
	id := strconv.FormatInt(c.GetJob(), 10)
	if c.GetIndex() > 0 {
		id += "[" + strconv.Itoa(int(c.GetIndex())) + "]"
	}
	return id
}

func commitNote(c *pb.Commit) string {
	switch {
	case c.GetBytes() > 0:
		return hostSize(c.Bytes) + " read"
	case c.GetReason() != "":
		return c.Reason
	}
	return dash(c.GetDescription())
}

// CommitRecord adds a request to a document.
func CommitRecord(doc *JSON, c *pb.Commit, st *Style) {
	doc.Open()
	doc.Int("ID", c.GetId())
	doc.String("JOBID", CommitJob(c))
	doc.String("IMAGE", c.GetName())
	doc.String("STATE", c.GetState())
	doc.String("REASON", c.GetReason())
	doc.String("ASKED", imageTime(c.GetAsked(), st))
	doc.String("DECIDED", imageTime(c.GetDecided(), st))
	doc.String("DECIDED_BY", c.GetDecidedBy())
	doc.String("ENDED", imageTime(c.GetEnded(), st))
	doc.Int("BYTES", c.GetBytes())
	doc.String("DESCRIPTION", c.GetDescription())
	doc.Close()
}
