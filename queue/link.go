package queue

// These types are the seam between a node's connection (api/client) and what acts on the node
// (nodes/agent): both name them, neither imports the other.

// Upstream is a node's way to the batch daemon while it is connected. Its methods may be called from
// any goroutine. An error means that the connection is gone: repeat what counts after the next
// Connected.
type Upstream interface {
	// Report tells a fact. It is durable only when Acknowledged says so.
	Report(Report) error
	Heartbeat(Heartbeat) error
}

// Pipe is the node's end of a byte stream to a terminal or an output file. Recv may be called beside
// one of the others, but none beside itself.
type Pipe interface {
	// Recv waits for the next frame. io.EOF: the other side has gone.
	Recv() (PipeFrame, error)
	SendData([]byte) error // standard output, or the terminal's
	SendErr([]byte) error  // standard error where it is apart
	// Fail says, for people, why there is nothing (more), and closes.
	Fail(msg string) error
	// Close says that the stream ended well. Closing twice is harmless.
	Close() error
}

// PipeFrame is one thing from the other side: exactly one of its fields is set.
type PipeFrame struct {
	Data       []byte
	EOF        bool   // end of standard input
	Signal     string // for the job: "INT"
	Rows, Cols uint16 // new size of the terminal
}
