// Package reports owns what a report is: which there are (Kind), by what their rows are grouped (By), over which period
// (ParsePeriod), and the tables that they give (Table), as text or as CSV. It knows no database and has no clock: package
// store reckons the figures, the commands print them.
//
// What the figures mean:
//
//   - A charge belongs to the period in which its attempt ended, whole, also where it began before. So the sum over
//     consecutive periods is the sum over all of them. What runs still is not in it.
//   - Only the reports of nodes and GPUs, which are about utilisation, count the part of each attempt that lies in the period,
//     and what runs still until now.
//   - A job is an element that ran and is over: an array of ten counts ten. An attempt that was requeued adds to the hours,
//     not to the jobs.
//   - Slot-hours, fGPU-hours and memory are what was given, not what was used; efficiency is used against given.
//   - Sums are exact. Percentiles of waits are so up to 100,000 starts; of more they are exact to 1.6 %, or 0.05 s, and the table says so.
//   - Days, weeks (from Monday) and months are those of the site's time zone; a day of 23 or 25 hours is one day.
package reports
