package agent

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"fairslice/nodes/apptainer"
	"fairslice/queue"
)

// overlaySuffix ends the names of the files that take what jobs change of their images.
const overlaySuffix = ".img"

func (t *attempt) overlayFile() string {
	return filepath.Join(t.a.cfg.Overlays, t.key+overlaySuffix)
}

// overlay lets the job change its image, where it asked for that: what it changes lies in a file of its own, which is as large as it
// may become and goes with the attempt.
func (t *attempt) overlay(as queue.Assignment, o *apptainer.Options) error {
	if !as.Spec.Writable {
		return nil
	}
	if as.OverlaySize <= 0 {
		return &failure{code: "overlay", detail: "queue " + as.Queue + " gives no writable images any more", jobFault: true,
			exitCode: exitCannotRun, verdict: queue.TermOther}
	}
	uid := as.Owner.UID
	if !t.a.cfg.SwitchUser {
		uid = os.Geteuid()
	}
	if o.Fakeroot = uid != 0; o.Fakeroot {
		if err := apptainer.CanOverlay(); err != nil {
			return &failure{code: "overlay", detail: err.Error()}
		}
		if _, err := user.LookupId(strconv.Itoa(uid)); err != nil { // Apptainer would say so in a line without a reason
			return &failure{code: "overlay", detail: "a writable image needs an account on the node: " + err.Error(), jobFault: true,
				exitCode: exitCannotRun, verdict: queue.TermOther}
		}
	}
	o.Overlay = t.overlayFile()
	if err := apptainer.MakeOverlay(t.a.ctx, o.Overlay, as.OverlaySize); err != nil {
		return &failure{code: "overlay", detail: err.Error()}
	}
	if err := t.give(o.Overlay); err != nil {
		return &failure{code: "overlay", detail: err.Error()}
	}
	return nil
}

// removeOverlay is for when nothing of the job runs any more.
func (t *attempt) removeOverlay() {
	if !t.rec.Assignment.Spec.Writable {
		return
	}
	if err := os.Remove(t.overlayFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.a.cfg.Logger.Warn("writable image of an ended job not removed", "attempt", t.key, "error", err)
	}
}

// sweepOverlays removes those of attempts that nobody knows any more.
func (a *Agent) sweepOverlays(known map[string]*record) {
	files, _ := os.ReadDir(a.cfg.Overlays)
	for _, f := range files {
		if known[strings.TrimSuffix(f.Name(), overlaySuffix)] == nil {
			_ = os.Remove(filepath.Join(a.cfg.Overlays, f.Name())) // tried again with the next start
		}
	}
}
