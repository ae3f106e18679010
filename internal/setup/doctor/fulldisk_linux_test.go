package doctor_test

import (
	"strings"
	"testing"

	"dibs/internal/setup/doctor"
	"dibs/internal/testkit"
)

// A state directory on a full disk is a problem, although empty files can be made there.
func TestFullDisk(t *testing.T) {
	disk := testkit.NewSmallDisk(t, 1<<20)
	disk.Fill()
	inWorld(t, func(w *world) {
		w.options.Config.StateDir = disk.Path
		f := find(doctor.Run(w.Context(), w.options), "state_dir")
		if f.Level != doctor.Error || !strings.Contains(f.Found, disk.Path) || !strings.Contains(f.Remedy, "make room on its disk") {
			w.Errorf("finding = %+v", f)
		}
	})
}
