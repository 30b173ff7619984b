package command

import (
	"testing"

	"fairslice/api/pb"
)

func TestBapp(t *testing.T) {
	f := &fake{apps: &pb.AppsResponse{Apps: []*pb.AppInfo{
		{Name: "jupyter", Proto: "http", Port: 8081, Running: true, Startable: true}, {Name: "tensorboard", Proto: "http", Startable: true},
		{Name: "vscode", Proto: "http"}, {Name: "own", Proto: "preopen", Port: 9000},
	}}}
	f.do("bapp 12").want(t, 0, "NAME            PROTO   PORT    STATE\n"+
		"jupyter         http    8081    running\ntensorboard     http    -       not started\nown             preopen 9000    yours to start\n", "")
	if f.appAsked.Id != "12" || f.appAsked.Open != "" {
		t.Errorf("asked %v", f.appAsked)
	}
	f.apps = &pb.AppsResponse{Apps: []*pb.AppInfo{{Name: "jupyter", Proto: "http", Startable: true, Failed: "jupyter: it is\nbroken"}}}
	f.do("bapp -noheader 12").want(t, 0, "jupyter         http    -       failed\n", "App jupyter could not be started: it is\nbroken\n")
	f.do("bapp -json 12").want(t, 0, `{
  "COMMAND":"bapp",
  "APPS":1,
  "RECORDS":[
    {
      "NAME":"jupyter",
      "PROTO":"http",
      "PORT":"",
      "STATE":"failed",
      "FAILED":"jupyter: it is\nbroken"
    }
  ]
}
`, "")
	f.apps = &pb.AppsResponse{}
	f.do("bapp 12").want(t, 0, "", "No app found: neither the image nor the site has one that this session can run (bapp job port opens a port of yours)\n")
	f.apps = &pb.AppsResponse{Apps: []*pb.AppInfo{{Name: "jupyter", Proto: "http", Port: 8081, Running: true, Url: "http://12-0-1-jupyter.localhost/?fairslice-pass=x"}}}
	f.do("bapp 12 jupyter").want(t, 0, "http://12-0-1-jupyter.localhost/?fairslice-pass=x\n", "Open it in a browser. It lets in whoever has it, as you, until the session ends.\n")
	if f.appAsked.Open != "jupyter" {
		t.Errorf("asked %v", f.appAsked)
	}
	f.apps.Apps[0].Url, f.apps.Apps[0].Proto = "", "tcp"
	f.do("bapp 12 jupyter").want(t, 255, "", "bapp: jupyter runs, at port 8081, but its protocol is tcp, not HTTP. This forwards it: bapp -L 8081:jupyter 12\n")
	f.do("bapp").want(t, 255, "", "bapp: name the job: bapp job [app] (bjobs -r lists what runs)\n")
	f.do("bapp -L x:y 12").want(t, 255, "", "bapp: -L \"x:y\": want PORT:APP such as 8888:jupyter, the port from 1 to 65535\n")
	f.do("bapp -L 1:2:3 12").want(t, 255, "", "bapp: -L \"1:2:3\": want PORT:APP such as 8888:jupyter or 5432:5432\n")
	f.do("bapp -json 12 jupyter").want(t, 255, "", "bapp: -json is for the list of a job's apps\n")
}

func FuzzParseForward(f *testing.F) {
	f.Add("8888:jupyter")
	f.Add("jupyter")
	f.Fuzz(func(t *testing.T, s string) {
		if w, err := parseForward(s); err == nil && (w.local < 0 || w.local > 65535 || w.app == "") {
			t.Errorf("%q became %+v", s, w)
		}
	})
}
