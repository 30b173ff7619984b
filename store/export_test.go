package store

import "context"

// RollUpBy is RollUp in steps of a size.
func (s *Store) RollUpBy(ctx context.Context, step int64) error { return s.rollUp(ctx, step) }
