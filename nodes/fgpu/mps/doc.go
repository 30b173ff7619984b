// Package mps runs NVIDIA's Multi-Process Service for GPUs whose slices it is to hold: one control daemon for each GPU,
// kept alive, and what a job needs to be a client of it.
//
//	          Start                    the daemon answers
//	(none) ──────────▶ starting ─────────────────────────▶ ready
//	                      ▲                                  │ it ends
//	                      └──────── after a pause ◀──────────┘
//
// Rules:
//
//  1. A daemon outlives the program that started it, as its clients do. Start adopts the one that it finds.
//  2. What was set on a daemon is set again on the one that follows it.
//  3. An answer that is not understood is an error, never a guess.
//
// What MPS holds, and what it does not:
//
//   - The share of SMs is a cap on each client process, not on a job: a job with several processes at once gets
//     several caps. The driver rounds a cap up to whole units of SMs (two or more), so that the caps of a full GPU may
//     add up to a little more than the GPU.
//   - The memory limit is one of each client process, too: the sum over a job is the shim's to hold.
//   - Both are in the client's environment, and so in the hands of the job. They can only lower what the daemon allows
//     (SetDefaultPercentage, SetDefaultMemory); what one job takes beyond its share, it takes from jobs of its
//     own user, since only those are put beside it.
//   - A program that is told no pipe directory, or a wrong one, runs without MPS, unless the GPU's compute mode is
//     Exclusive_Process.
//   - A client is served by one daemon, so a job can have slices of one GPU in this mode, not of several.
//   - A bad kernel of one client ends all clients of that GPU (StatusFault).
//
// Commands, states and variables are those of docs.nvidia.com/deploy/mps, "Legacy MPS v2 Interface", "Architecture" and
// "Environment Variables".
package mps
