package command

import (
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

// about makes a command that prints one thing about the cluster.
func about(table option.Command, run func(c *call, u Users, site *pb.ClusterResponse, p *option.Parsed) int) *command {
	return &command{Command: table, run: func(c *call, p *option.Parsed) int {
		u, ok := c.connect()
		if !ok {
			return failed
		}
		site, err := u.Cluster(c.ctx)
		if err != nil {
			return c.failErr(err)
		}
		return run(c, u, site, p)
	}}
}

func lsidCommand() *command {
	return about(option.Command{
		Name: "lsid", Usage: "[-json]", Summary: "prints version, cluster, and where the batch daemon runs",
		Example: "lsid", Options: []option.Option{optJSON},
	}, func(c *call, _ Users, site *pb.ClusterResponse, p *option.Parsed) int {
		if p.Has("json") {
			return c.document("CLUSTERS", nil, 1, func(doc *show.JSON, _ int) {
				doc.Open()
				doc.String("CLUSTER_NAME", site.Name)
				doc.String("MASTER_HOST", site.Master)
				doc.String("VERSION", site.Version)
				doc.String("TIME_ZONE", site.TimeZone)
				doc.Close()
			})
		}
		c.write(show.Cluster(nil, site, &c.style))
		return 0
	})
}

func lsclustersCommand() *command {
	return about(option.Command{
		Name: "lsclusters", Usage: "[options] [cluster]", Summary: "prints the cluster with the number of its hosts",
		Example: "lsclusters", Options: []option.Option{optJSON, optWide},
	}, func(c *call, u Users, site *pb.ClusterResponse, p *option.Parsed) int {
		resp, err := u.Hosts(c.ctx)
		if err != nil {
			return c.failErr(err)
		}
		admin, _, _ := strings.Cut(show.Param(site, "LSF_ADMINS"), " ")
		if len(p.Operands) > 0 && p.Operands[0] != site.Name {
			return c.fail(show.Clean(p.Operands[0]) + ": no such cluster")
		}
		if p.Has("json") {
			return c.document("CLUSTERS", nil, 1, func(doc *show.JSON, _ int) {
				doc.Open()
				doc.String("CLUSTER_NAME", site.Name)
				doc.String("STATUS", "ok")
				doc.String("MASTER_HOST", site.Master)
				doc.String("ADMIN", admin)
				doc.String("HOSTS", strconv.Itoa(len(resp.Hosts)))
				doc.Close()
			})
		}
		c.write(show.Clusters(nil, site, admin, len(resp.Hosts)))
		return 0
	})
}

func bparamsCommand() *command {
	return about(option.Command{
		Name: "bparams", Usage: "[-a | -l] [-json]", Summary: "prints the parameters of the batch system",
		Example: "bparams -a | grep MAX_JOB_ARRAY_SIZE",
		Options: []option.Option{{Name: "a", Help: "all of them"}, {Name: "l", Help: "all of them, with what they mean"}, optJSON},
	}, func(c *call, _ Users, site *pb.ClusterResponse, p *option.Parsed) int {
		switch {
		case p.Has("json"):
			return c.params(site, "params")
		case p.Has("a") || p.Has("l"):
			c.write(show.ParamsLong(nil, site))
		default:
			c.write(show.Params(nil, site))
		}
		return 0
	})
}

// params prints one section of the published parameters as a document.
func (c *call) params(site *pb.ClusterResponse, section string) int {
	var list []*pb.Param
	for _, p := range site.Params {
		if p.Section == section {
			list = append(list, p)
		}
	}
	return c.document("PARAMS", nil, len(list), func(doc *show.JSON, i int) {
		doc.Open()
		doc.String("NAME", list[i].Name)
		doc.String("VALUE", list[i].Value)
		doc.String("DESCRIPTION", list[i].Help)
		doc.Close()
	})
}

func lsadminCommand() *command {
	return about(option.Command{
		Name: "lsadmin", Usage: "showconf lim", Summary: "prints the configuration that programs read",
		Example: "lsadmin showconf lim | grep LSF_UNIT_FOR_LIMITS", Options: []option.Option{optJSON},
	}, func(c *call, _ Users, site *pb.ClusterResponse, p *option.Parsed) int {
		if len(p.Operands) < 1 || p.Operands[0] != "showconf" {
			return c.fail("lsadmin: the only thing it does is `lsadmin showconf lim`")
		}
		return c.showconf("LIM", site, p.Has("json"))
	})
}

func (c *call) showconf(title string, site *pb.ClusterResponse, json bool) int {
	if json {
		return c.params(site, "conf")
	}
	c.write(show.Conf(nil, site, title, &c.style))
	return 0
}

func badminCommand() *command {
	return &command{run: badmin, Command: option.Command{
		Name: "badmin", Usage: "command [options] [name ...]",
		Summary: "changes hosts, queues, accounts and archives (administrators), and prints the configuration",
		Example: "badmin hclose -C \"new disks\" gpu01\nbadmin hopen gpu01\nbadmin qinact gpu\nbadmin showconf mbd all\n" +
			"badmin policy show > site.policy\nbadmin account load -n site.policy\nbadmin limit set each-user running=20 wall=2d\n" +
			"\nhopen hclose HOST ...              let a host take jobs, or not\n" +
			"qopen qclose QUEUE ...             let a queue take jobs, or not\n" +
			"qact qinact QUEUE ...              let a queue start jobs, or not\n" +
			"reconfig                           read the configuration again\n" +
			"showconf mbd                       print the configuration\n" + commitsHelp + archiveHelp + policyHelp,
		Options: []option.Option{
			{Name: "C", Value: option.Required, Arg: "TEXT", Help: "why; users see it"},
			{Name: "n", Help: "account, user, share, limit, budget: say what would change, and change nothing"},
			{Name: "before", Value: option.Required, Arg: "DATE", Help: "archive: jobs that finished before this day, YYYY-MM-DD"},
			{Name: "keep", Help: "archive: the jobs stay in the database"},
			{Name: "f", Help: "account load: also over changes made since the file was printed"}, {Name: "v", Hidden: true}, optJSON,
		},
	}}
}

func badmin(c *call, p *option.Parsed) int {
	if len(p.Operands) == 0 {
		return c.fail("badmin: what to do? (badmin -h lists it)")
	}
	op, names := p.Operands[0], p.Operands[1:]
	if isPolicyWord(op) {
		return c.policy(p)
	}
	switch op {
	case "commits":
		return c.decideCommit(p, names)
	case "archive":
		return c.archive(p, names)
	case "restore":
		return c.restore(names)
	case "hopen", "hclose":
		if len(names) == 0 {
			names = []string{c.env.Host}
		}
	case "qopen", "qclose", "qact", "qinact":
		if len(names) == 0 {
			return c.fail("badmin: " + op + " needs the name of a queue, or all")
		}
	case "reconfig", "mbdrestart":
		op = "reconfig"
	case "token":
	case "showconf":
		if len(names) > 0 && names[0] != "mbd" {
			return c.fail("badmin: showconf prints mbd only")
		}
	default:
		return c.fail("badmin: " + show.Clean(op) + ": no such command (badmin -h lists them)")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	if op == "showconf" {
		site, err := u.Cluster(c.ctx)
		if err != nil {
			return c.failErr(err)
		}
		return c.showconf("MBD", site, p.Has("json"))
	}
	list, err := u.Admin(c.ctx, queue.AdminCommand{Op: op, Names: names, Reason: p.Last("C")})
	if err != nil {
		return c.failErr(err)
	}
	return c.outcomes(list, false)
}
