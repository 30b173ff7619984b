package etc

import _ "embed" // for ImageScript

// ImageScript is image.sh: batchd dev builds its sample image with it.
//
//go:embed image.sh
var ImageScript []byte
