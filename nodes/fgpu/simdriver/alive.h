// Who is alive: a process is named by its id and its start time, so that a recycled id is another process.
#ifndef FAIRSLICE_SIM_ALIVE_H
#define FAIRSLICE_SIM_ALIVE_H

#include <stdint.h>

#define KEY_START_BITS 42
#define KEY_PID(key) ((unsigned)((key) >> KEY_START_BITS))

uint64_t alive_own_key(void);

// Whether the process of that key still runs. A zombie is dead: its memory and its context are gone.
int alive(uint64_t key);

// The key of whoever has this id now; 0 when nobody lives under it.
uint64_t alive_key(unsigned pid);

#endif
