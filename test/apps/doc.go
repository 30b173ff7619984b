// Package apps holds the tests with real images and a real browser: Debian's Pythons side by side, Jupyter and MLflow as
// their users see them, and the web page (also over TLS, and for two users at once), on a headless Chromium. They build images
// of 57 to 142 MB and take minutes, so they are skipped unless FAIRSLICE_APPS=1, which `make test-apps` sets;
// etc/setup-apps.sh installs what they need.
//
// browser.go is the browser. README.md says how the servers in the images are started, and why so.
//
// To see what the browser saw, also where all went well:
//
//	FAIRSLICE_APPS=1 go test ./test/apps -run Jupyter -artifacts -outputdir /tmp/seen
package apps
