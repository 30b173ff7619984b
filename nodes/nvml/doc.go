// Package nvml reads the GPUs of this machine from the NVIDIA management library: what they are, into
// which MIG instances they are divided, how busy they are, and which processes hold their memory and
// use their time. It is the only importer of go-nvml, and it treats the simulated driver of
// nodes/fgpu/simdriver like the real one. It keeps no history, and changes nothing on a GPU but the
// memory limits of control groups (MemoryLimits).
//
// Rules:
//
//  1. A machine without the library is normal: ErrNoDriver, which no one logs as a failure.
//  2. One bad GPU never hides the others. It stays in the list, marked Lost.
//  3. A driver that lacks a call costs the fact that call gives, never the process. go-nvml binds
//     symbols at their first call and the loader ends the process when one is missing, so every
//     optional symbol is looked up before.
//  4. One process uses one library file. The loader binds each symbol once, so a second file would
//     be opened and then not be used; Open refuses it.
//
// A program that imports this package needs cgo, and late binding (rule 3): linked with "-z now", or
// started with LD_BIND_NOW set, it ends before main. "-ldflags=-extldflags=-Wl,-z,lazy" makes sure
// where a distribution's compiler links with "-z now" by itself.
package nvml
