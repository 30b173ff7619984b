package command

import (
	"testing"
	"time"

	"fairslice/api/pb"
)

func TestBlogin(t *testing.T) {
	f := &fake{login: &pb.LoginResponse{Url: "http://127.0.0.1:8080/login?once=ABC", Valid: int64(2 * time.Minute)}}
	f.do("blogin").want(t, 0, "http://127.0.0.1:8080/login?once=ABC\n", "Open it in a browser within 2 min. Whoever opens it first is logged in as you.\n")
	f.do("blogin alice").want(t, 255, "", "blogin: it takes no arguments: the link is for who runs it\n")
}
