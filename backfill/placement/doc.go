// Package placement decides on which node a request goes, and on which of its GPUs: Policy has a cost for each node,
// and the least wins. It owns three policies and the Mix, which is what a site asks for, learnt from what was asked. It
// owns neither what fits (nodes.Fit does) nor who comes first, and it never refuses what fits.
//
// Invariants, each a property in the tests:
//
//  1. A policy has a place exactly where nodes.Fit has one, and nodes.Take accepts it.
//  2. Asking changes nothing, and the cost depends on the state of the node, never on names.
//  3. The same observations in the same order give the same costs.
//
// # Fragmentation
//
// FGD ("Beware of Fragmentation", Weng et al., ATC'23) counts as a fragment what of a node's free GPU the next request
// of the mix could not use. Here the loss looks further: what is expected to stay unused until the node is full.
// Five parts, all in GPUs (the formulas are at expectedWaste, stranded, loss and addPrice):
//
//   - a started GPU is worth what several requests of the mix will make of the hole that is left: a dynamic
//     program over hole and number of offers, once per epoch;
//   - free GPUs, slots and memory of a node are used together. The harmonic sum of the three, each in the GPUs that it
//     can serve, is smooth: it prices a slot by how scarce slots are beside this node's free GPUs, so that CPU
//     jobs go where they strand none, and GPU jobs with few slots where slots are few;
//   - to start a whole GPU for a fraction costs a tenth of it, so that while there is room fractions are kept together
//     (0.1 for 0 costs at most 0.08 points at 130 %, and 0.4 of gpuspec33 at 100 %; 2 seeds);
//   - whole GPUs on a node that cannot take a request for several are worth less, by the share of such requests;
//   - a GPU of a model for which the constrained demand is large and the supply small has a price.
//
// # What was measured
//
// Allocated GPU share in percent at 130 % / 100 % arrived load on the Alibaba GPU trace (1,213 nodes, 6,212 GPUs, arrivals only;
// package replay repeats the published arrivals). Seeds 42 to 51, but 42 to 44 where marked *.
//
//	policy                          default      gpushare40   gpuspec33    multigpu50   cpu250
//	packing                         92.00        90.03        93.22        96.18        88.28
//	best-fit                        93.08        91.69        93.09        95.74        91.45
//	FGD, published                  95.39/95.23  94.15/93.96  94.55/87.80  97.18/97.09  93.41/93.13
//	FGD without its rounding *      93.00/92.78  87.65/87.40  93.89/87.19  97.23/97.14  87.96/87.72
//	fragmentation, as it is         96.00/95.93  94.66/94.53  95.79/94.37  97.54/97.45  95.27/95.03
//	  started GPUs cost nothing     96.04/95.96  94.68/94.56  95.85/94.71  97.61/97.35  95.24/95.01
//	the last line varied:
//	fragmentation *                 96.07/95.98  94.66/94.54  95.87/94.89  97.59/97.34  95.30/95.07
//	  mix known beforehand *        96.03/95.94  94.68/94.56  95.91/95.01  97.62/97.39  95.36/95.12
//	  half-life 2000 arrivals *     96.06/95.97  94.68/94.57  95.91/94.85  97.61/97.32  95.32/95.06
//	  half-life 500 arrivals *      96.06/95.98  94.67/94.56  95.98/94.56  97.61/97.32  95.33/95.09
//	  holes by size only *          95.85/95.74  94.31/94.19  95.65/94.34  97.47/97.33  95.19/94.90
//	  without stranding *           91.90/91.67  89.62/89.38  88.39/88.21  95.32/95.21  88.94/88.70
//	  without groups *              95.89/95.68  94.49/94.38  95.53/91.59  92.61/76.99  94.61/94.28
//	  groups three times *          96.05/95.93  94.65/94.51  95.80/90.26  95.81/93.76  94.52/94.28
//	  without prices *              96.07/95.98  94.66/94.54  96.10/91.02  97.59/97.34  95.30/95.07
//	  prices twice *                96.07/95.98  94.66/94.54  95.66/94.74  97.59/97.34  95.30/95.07
//	  without filling up *          96.04/95.95  94.67/94.55  95.84/94.83  97.61/97.31  95.33/95.09
//	  2 offers *                    96.01/95.92  94.59/94.49  95.73/94.06  97.54/97.46  95.31/95.09
//	  16 offers *                   96.16/96.07  94.75/94.62  95.99/95.11  97.59/96.63  95.42/95.16
//
// Also tried, in a sketch: FGD's fragments plus expected waste (95.15 default, 97.07 multigpu50); copies of each shape that still fit, rounded
// down, in place of the harmonic sum (95.60, 96.68); free GPUs less slots/need, smoothed, in its place (95.94, but 92.33 cpu250 and requests for
// eight GPUs kept out from 70 % on); groups by number of GPUs only, without their slots and memory (94.3 cpu250). The constants were chosen on
// seeds 100 to 102 (prices and filling up were looked at on 42 and 43 too); results are flat around them. A weakness: requests
// for eight GPUs fail earlier than with FGD. At 90 % arrived 89.47, 89.35, 87.14, 88.95 and 89.88 are allocated, with FGD 89.98, 89.99,
// 80.58, 89.93 and 89.98; the square root of the share in place of the share mends a part of it, and costs 3 points of gpuspec33 at 100 %.
//
// How much more there is on default: in a sketch of the same policy, of the 248 GPUs' worth not allocated at the end of seed 42,
// 186 are holes of 0.19 beside requests for 0.81, while every request that would fit into one was placed.
package placement
