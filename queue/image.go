package queue

import "fairslice/images"

// ImageChange changes what is said of an image, or who sees it; nil leaves as it is.
type ImageChange struct {
	Visibility  *images.Visibility
	Groups      []images.Group // with a Visibility of ToGroups
	Description *string
}

// NodeImage is an image of the catalogue as a node knows it: its file is fetched from batchd by its digest, once.
type NodeImage struct {
	Name   string
	Digest images.Digest
	Size   int64
	// Public says that any user of the node may read the file; else only the job's owner.
	Public bool
}
