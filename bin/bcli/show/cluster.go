package show

import (
	"strconv"
	"strings"

	"fairslice/api/pb"
)

// Product is the name that lsid and -V print. It says which command set is understood, and does not
// claim to be another maker's product.
const Product = "Fairslice"

// compatible is the version of the command set, which programs look for.
const compatible = "10.1.0.0"

// Version is the first line of lsid, and all of -V. Programs want a version followed by a comma.
func Version(version string, st *Style) string {
	return Product + " " + Clean(or(version, "0.1.0")) + ", LSF-compatible command set " + compatible + ", " +
		st.at(st.Now.UnixNano()).Format("Jan 2 2006") + "\n"
}

// Cluster is what lsid prints.
func Cluster(b []byte, c *pb.ClusterResponse, st *Style) []byte {
	b = append(append(b, Version(c.Version, st)...), "\nMy cluster name is "...)
	b = append(append(b, Clean(c.Name)...), "\nMy master name is "...)
	return append(append(b, Clean(c.Master)...), '\n')
}

// Clusters is what lsclusters prints.
func Clusters(b []byte, c *pb.ClusterResponse, admin string, hosts int) []byte {
	b = append(b, "CLUSTER_NAME   STATUS   MASTER_HOST               ADMIN    HOSTS  SERVERS\n"...)
	b = append(LeftLong(b, c.Name, 14), " ok       "...)
	b = append(LeftLong(b, c.Master, 22), ' ')
	b = Right(b, dash(admin), 8)
	b = RightInt(append(b, ' '), int64(hosts), 8)
	return append(RightInt(append(b, ' '), int64(hosts), 8), '\n')
}

// Param finds a published parameter, "" without it.
func Param(c *pb.ClusterResponse, name string) string {
	for _, p := range c.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Params is the short form of bparams.
func Params(b []byte, c *pb.ClusterResponse) []byte {
	seconds := func(name, otherwise string) string { return or(Param(c, name), otherwise) + " seconds\n" }
	b = append(b, "Default Queues:  "+Clean(or(c.DefaultQueue, "-"))+"\n"...)
	b = append(b, "Job Dispatch Interval:  "+seconds("MBD_SLEEP_TIME", "1")...)
	b = append(b, "Job Checking Interval:  "+seconds("SBD_SLEEP_TIME", "1")...)
	return append(b, "Job Accepting Interval:  "+seconds("JOB_ACCEPT_INTERVAL", "0")...)
}

// ParamsLong is bparams -a and -l: what a parameter means, and then its line.
func ParamsLong(b []byte, c *pb.ClusterResponse) []byte {
	b = append(b, '\n')
	for _, p := range c.Params {
		if p.Section != "params" {
			continue
		}
		b = append(b, Clean(or(strings.TrimRight(p.Help, ".:"), p.Name))...)
		b = append(b, ":\n    "...)
		b = append(b, Clean(p.Name)...)
		b = append(b, " = "...)
		b = append(append(b, Clean(p.Value)...), "\n\n"...)
	}
	return b
}

// Conf is what badmin showconf and lsadmin showconf print after their title: " KEY = VALUE" lines.
// Some readers skip one more line than the title, so LSF_UNIT_FOR_LIMITS never stands among the first two.
func Conf(b []byte, c *pb.ClusterResponse, title string, st *Style) []byte {
	b = append(append(b, title...), " configuration at "...)
	b = append(append(b, st.CTime(st.Now.UnixNano())...), '\n')
	lines := ConfParams(c)
	for _, p := range lines {
		b = append(append(append(b, ' '), Clean(p.Name)...), " = "...)
		b = append(append(b, Clean(p.Value)...), '\n')
	}
	return b
}

// ConfParams are the lines of Conf in their order.
func ConfParams(c *pb.ClusterResponse) []*pb.Param {
	var out []*pb.Param
	var unit *pb.Param
	for _, p := range c.Params {
		switch {
		case p.Section != "conf":
		case p.Name == "LSF_UNIT_FOR_LIMITS":
			unit = p
		default:
			out = append(out, p)
		}
	}
	if unit == nil {
		return out
	}
	if len(out) < 2 {
		out = append([]*pb.Param{{Name: "LSF_MASTER_LIST", Value: strconv.Quote(c.Master)}, {Name: "LSF_CLUSTER", Value: c.Name}}, out...)
	}
	return append(out, unit)
}
