// Package accounting knows what users have used, and what follows from that for whose turn it is. It is told of every
// charge; it keeps no time of its own, and nothing on disk: the charges themselves are kept by others, and a Usage is
// made of them again after a restart. It also owns the language of a site's Policy: accounts, shares, limits and budgets.
//
//	text ── ParsePolicy ──▶ Policy ──┐
//	charges ── AddTo ─────▶ Usage ───┴─ Tree(now) ──▶ Factor: whose turn;  Standings, Explain: what people read
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
//  6. Every Policy is one that its text gives again: what ParsePolicy refuses cannot be made by an edit either.
//  7. All usage counts somewhere in the tree: in the account that it was charged in while its user is in that, else in the
//     user's default account. An account's usage is the sum of what is in it.
//  8. What budgets have spent is the sum of charges and of what runs, split at the beginnings of their periods to the millisecond,
//     in whole numbers of 128 bits (Spending, Cost). It does not fade.
//  9. Under a policy without accounts all users are equal, and ranks are those of a Tally.
package accounting
