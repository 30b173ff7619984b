// Package archive is the file that jobs of long ago are kept in: zstd-compressed lines of JSON, which any zstd and any JSON
// reader can read. It writes such files, and reads them so that nothing that is damaged, cut off or of another kind passes. What the
// rows mean, and when they may leave the database, is store's business.
//
//	{"fairslice_archive":1,"cluster":"…","before":"…","history":2,"events":9,"charges":2,"cancelled":0}
//	{"history":{"job":1,"owner":"ada",…}}      all of a table stands together, the tables in the order of Tables
//	{"events":{"seq":3,"job":1,…}}
//	{"check":"…"}                              after every 1000 rows: the SHA-256 of all lines above
//	{"end":{"history":2,…,"sha256":"…"}}       the last line; with the same sum, and the counts again
//
// What holds:
//
//  1. The same jobs give the same lines, and so the same sum: no line says when or by whom it was written. So the database can
//     tell whether a file has what it has, by making the lines again.
//  2. Create leaves a file of its final name only when all of it is on disk and was read back; what it was writing when it
//     was killed has another name, and the next try begins anew.
//  3. Reader gives a row at a time, and holds one; a row has at most MaxRow bytes, and a file that unpacks to more than any
//     archive would is refused on the way.
package archive
