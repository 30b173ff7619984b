package backfill
import ("testing";"fmt")
func TestDbg(t *testing.T) {
	c := play(t, "dbg", `
			nodes a=2
			running 1 on a:2 ends 1h
			job 2 slots=2 limit=1h ; job 3 slots=2 limit=1h
			= reserve 2 at 1h on a
			= wait 2 slots ~1h
			at 10m mod 3 prio=9`)
	c.plan()
	for range 3 {
	for _, w := range c.waits(c.p) { fmt.Println(w) }
	}
	for _, h := range c.p.hosts { fmt.Printf("%+v\n%+v\n%v\n", h.node, h.line,h.kind) }
	fmt.Println(c.p.Explain(c.jobs[2].Shape))
	for s := range c.p.classes {fmt.Println("class",s)}
}
