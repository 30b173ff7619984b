package bsub

// SessionCommand is the command of a session that was asked for without one: what listings show. RunShell says what runs.
const SessionCommand = "shell"

// RunShell makes a submission run the user's shell where the image has it, else the image's.
func (s *Submission) RunShell() {
	s.Script = []byte(`for s in "$SHELL" /bin/bash /bin/sh; do [ -x "$s" ] && exec "$s"; done` + "\n")
	s.Spec.Shell = "/bin/sh"
}
