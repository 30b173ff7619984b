package session

import "testing"

func TestEscape(t *testing.T) {
	for _, row := range []struct {
		typed []string // as it comes from the terminal
		want  string
		leave bool
	}{
		{[]string{"ls\r"}, "ls\r", false},
		{[]string{"~."}, "", true},
		{[]string{"~", "."}, "", true},
		{[]string{"ls\r~.rest"}, "ls\r", true},
		{[]string{"ls\r", "~", ".", "rest"}, "ls\r", true},
		{[]string{"cd ~.\r"}, "cd ~.\r", false},
		{[]string{"~/bin/x\r"}, "~/bin/x\r", false},
		{[]string{"~", "/bin/x\r~."}, "~/bin/x\r", true},
		{[]string{"~~.\r"}, "~.\r", false},
		{[]string{"\x03~."}, "\x03", true},
	} {
		var e escape
		got, leave := "", false
		for _, typed := range row.typed {
			if leave {
				break
			}
			var data []byte
			data, leave = e.filter([]byte(typed))
			got += string(data)
		}
		if got != row.want || leave != row.leave {
			t.Errorf("%q: %q %v, want %q %v", row.typed, got, leave, row.want, row.leave)
		}
	}
}
