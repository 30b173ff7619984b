package etc

import "time"

// Session is [session]: what concerns the sessions of all queues.
type Session struct {
	IdleHook string `toml:"idle_hook"` // a program that batchd runs when it warns of an idle session; "" for none
}

func (v *checker) session(s *Session) { v.absolute(path{"session", "idle_hook"}, s.IdleHook, false) }

// idle checks the rule of a queue's idle sessions.
func (v *checker) idle(p path, q *Queue) {
	if q.IdleAfter != 0 {
		v.duration(p.with("idle_after"), q.IdleAfter, time.Second, maxRunLimit)
	}
	v.duration(p.with("idle_warn"), q.IdleWarn, time.Second, maxRunLimit)
	v.between(p.with("idle_gpu_below"), q.IdleGPUBelow, 1, 100)
	v.between(p.with("idle_cpu_below"), q.IdleCPUBelow, 1, 100)
}
