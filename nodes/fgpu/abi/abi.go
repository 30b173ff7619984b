// Package abi holds, as C headers, what is fixed between programs that do not share a build: the layout of the
// files of a slice (region.h), and the part of the CUDA driver's binary interface that the fence and the simulated
// driver both speak (cuda.h, entries.def). They are facts of an ABI, declared by us.
package abi

import "embed"

// Headers are the files of this folder, for those who compile C from a program.
//
//go:embed *.h *.def
var Headers embed.FS
