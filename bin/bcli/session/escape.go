package session

// escape finds "~." at the beginning of a line among what the user types: the way out of a session on a terminal, where
// every key is the session's. It is the one of ssh, so that over ssh the user types "~~.".
type escape struct {
	inLine bool // something of the present line was typed
	held   bool // a ~ at its beginning waits for what follows
}

// filter returns what is to be passed on, and whether the user leaves; nothing behind that is passed on.
func (e *escape) filter(typed []byte) (data []byte, leave bool) {
	data = make([]byte, 0, len(typed)+1)
	for _, b := range typed {
		switch {
		case e.held && b == '.':
			return data, true
		case e.held && b == '~': // one of the two
			e.held, e.inLine = false, true
			data = append(data, b)
			continue
		case e.held:
			e.held, e.inLine = false, true
			data = append(data, '~')
		case b == '~' && !e.inLine:
			e.held = true
			continue
		}
		data = append(data, b)
		e.inLine = b != '\r' && b != '\n' && b != 3 // Ctrl-C begins a new line, too
	}
	return data, false
}
