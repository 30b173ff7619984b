// Package accounting knows what users have used, and what follows from that for whose turn it is. It is told of every
// charge; it keeps no time of its own, and nothing on disk: the charges themselves are kept by others, and a Usage is
// made of them again after a restart.
//
// What holds:
//
//  1. A charge counts in full when it is made and half as much after each half-life: by 2^(-dt/half-life), and not by the
//     1 - 0.693/half-life per second that is only close to it when the half-life is long. Each is rounded once, to 1/65536
//     slot-second or fGPU-second, and counts as 0 after 64 half-lives.
//  2. Decay happens when usage is read. No decayed number is kept, so none can be decayed twice, or not at all.
//  3. A Usage depends on which charges it was given, never on their order, to the last bit: sums are of integers. So what
//     is made of the stored charges after a restart ranks users as before, and equal histories are equal.
//  4. Usage is never negative, infinite or not a number, whatever a charge says.
//  5. Work that runs counts before it is charged, by as much as it would be charged if it ended now. So its end moves
//     nobody, and nobody starts everything before the first job ends.
package accounting
