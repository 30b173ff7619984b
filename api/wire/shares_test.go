package wire

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"fairslice/accounting"
	"fairslice/queue"
)

func TestSharesAndPrioritiesKeepAllOfTheirParts(t *testing.T) {
	trip(t, filled[accounting.Shares](), FromShares, ToShares)
	m := FromPriority(filled[queue.Priority]()).ProtoReflect()
	all := func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			if !m.Has(fields.Get(i)) {
				t.Errorf("%s is never set", fields.Get(i).FullName())
			}
		}
	}
	all(m)
	all(FromPriority(filled[queue.Priority]()).Parts[0].ProtoReflect())
}
