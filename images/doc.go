// Package images says what an image is: a SIF file known by a name, who may see it, and how one grows out of a session.
//
// An image is NAME:TAG, of the site, or OWNER/NAME:TAG, of a user. Short names are looked for among one's own first. What
// a name stands for may change; a job keeps the file that its name stood for when it was submitted (Image.ID), also when the
// image is removed from the catalogue or replaced: such an image stays in it, unlisted, as long as a job needs it.
//
// Invariant: an image that is not visible to a user is for him as if it did not exist. Every function here that finds one
// for a user asks VisibleTo, and says "no such image" of both.
package images
