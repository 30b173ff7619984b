// Command shepherd starts the jobs of one node daemon and keeps their exit statuses. The daemon runs it; see package
// nodes/shepherd.
package main

import (
	"os"

	"fairslice/nodes/cgroup"
	"fairslice/nodes/shepherd"
)

func main() {
	os.Exit(shepherd.Main(os.Args, cgroup.Join))
}
