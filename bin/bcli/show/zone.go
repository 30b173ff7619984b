package show

import "time"

// Zone is where times are shown, and read.
func (st *Style) Zone() *time.Location {
	if st.Loc == nil {
		return time.Local
	}
	return st.Loc
}
