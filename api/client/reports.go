package client

import (
	"context"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
)

// Report makes a table of what was used.
func (u *Users) Report(ctx context.Context, req *pb.ReportRequest) (*pb.ReportResponse, error) {
	res := new(pb.ReportResponse)
	return res, u.unary(ctx, always, pbconnect.UsersReportProcedure, req, res)
}

// Finished gives jobs that are over, page by page.
func (u *Users) Finished(ctx context.Context, req *pb.FinishedRequest, page func(*pb.FinishedResponse) error) error {
	return listen(ctx, u, always, pbconnect.UsersFinishedProcedure, req, page)
}
