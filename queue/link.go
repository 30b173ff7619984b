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
	Send(PipeOutput) error
	// Fail says, for people, why there is nothing (more), and closes.
	Fail(msg string) error
	// Close says that the stream ended well. Closing twice is harmless.
	Close() error
}

// PipeOutput is one thing from the node. Without any field it says that the stream is tied, which is the first of a session and of
// what runs beside a job; otherwise one field is set.
type PipeOutput struct {
	Data   []byte // standard output, the terminal's, or a connection's
	Err    []byte // standard error where it is apart
	Taken  int    // so many bytes of input were taken by a program beside the job; InputWindow bounds what may be under way
	EOF    bool   // the end of a connection's data towards the user
	Exited bool   // the program beside the job has ended
	Status int    // with Exited: its raw wait status
}

// InputWindow is how many bytes of input may be on their way to a program beside a job: what lies behind them, such as a
// signal, must not wait for a program that reads nothing.
const InputWindow = 256 << 10

// PipeFrame is one thing from the other side: exactly one of its fields is set.
type PipeFrame struct {
	Data       []byte
	EOF        bool   // end of standard input
	Signal     string // for the job: "INT"
	Rows, Cols uint16 // new size of the terminal
}
