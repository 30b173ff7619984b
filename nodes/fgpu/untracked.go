package fgpu

// Untracked finds what the driver counts for a job on one device beyond what its processes said they hold: modules,
// libraries, contexts bigger than charged, memory taken past the shim. The zero value is ready.
type Untracked struct{ last int64 }

// Next takes the driver's bytes and what the slots said (DeviceUsage.Held) right before and right after the driver was
// asked, and returns the bytes to publish. The readings are not of one moment: a process that allocates in between would
// look as if it hid something, and be refused memory it has a right to. A claim is made before the driver allocates and ends after
// it has freed, so the greater of the two readings is the fair one; and what is published rises only with the second look
// that finds it. It falls at once.
func (u *Untracked) Next(driver, before, after int64) int64 {
	now := max(driver-max(before, after), 0)
	publish := min(now, u.last)
	u.last = now
	return publish
}
