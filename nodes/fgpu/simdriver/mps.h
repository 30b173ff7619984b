// A process of the simulated CUDA driver as a client of MPS: what libcuda.so.1 asks mps.c.
//
// As the real driver does, it looks for a control daemon in $CUDA_MPS_PIPE_DIRECTORY (default /tmp/nvidia-mps)
// when it is initialised. Where there is none it works without MPS. Its limits are the lower of what the daemon says
// and of what its own environment says, and are fixed from then on.
#ifndef FAIRSLICE_SIM_MPS_H
#define FAIRSLICE_SIM_MPS_H

// CUresult of the calls below, with the driver's numbers.
#define SIM_MPS_INVALID_VALUE 1           // a limit in the environment cannot be read
#define SIM_MPS_CONNECTION_FAILED 805     // a daemon's socket is there, but nobody answers
#define SIM_MPS_RPC_FAILURE 806           // the server has ended beneath its client
#define SIM_MPS_SERVER_NOT_READY 807      // the server is in state FAULT until its clients have gone
#define SIM_MPS_MAX_CLIENTS_REACHED 808
#define SIM_MPS_CLIENT_TERMINATED 810     // the daemon was told to end this client
#define SIM_MPS_LAUNCH_FAILED 719         // a fault of any client of the server is a fault of all

// The protocol between clients, commands and the daemon, in mps_control.c and mps.c alike: a stream socket
// $CUDA_MPS_PIPE_DIRECTORY/SIM_MPS_SOCKET. Who connects sends one line.
//   attach        "ok PERCENT DEVICE=MIB DEVICE=MIB..." or "error CODE"; the client then keeps the connection as long as
//                 it lives. Where another user's server is active, the answer waits for its clients to end.
//                 Later the daemon may send one letter: F (fault of some client), T (terminated). Its end is the server's.
//   a command     the answer's text and a NUL, and the end of the connection
#define SIM_MPS_SOCKET "simulated-control" // not the real name: the two must never talk to each other
#define SIM_MPS_DIRECTORY "/tmp/nvidia-mps" // the default

// To be called by cuInit, after CUDA_VISIBLE_DEVICES has been applied. Returns 0 (a client, or no MPS here) or an error
// above; after an error the next call tries again. A forked child is no client, as its parent's contexts are not its
// either. It may wait as long as another user has the server.
int sim_mps_attach(void);

// Whether this process is a client.
int sim_mps_client(void);

// How many of a GPU's SMs this process may use: what the SM count attribute shows and launches get.
// Rounded up to SIM_MPS_UNIT, as the hardware hands out SMs in units. All of them when not a client.
#define SIM_MPS_UNIT 2
unsigned sim_mps_sms(unsigned total);

// The most bytes this process may hold on a device, contexts included. ~0ull: no limit. device is the number by which
// this process knows it (CUdevice), for limits are named so or by UUID.
unsigned long long sim_mps_memory_limit(unsigned device, const char *uuid);

// 0, or why this client can no longer use the GPU. Costs a system call: for synchronisation and allocation, not
// for launches.
int sim_mps_check(void);

// ---- shared by mps.c and mps_control.c ----

// What limits the clients of a server, or one client.
#define SIM_MPS_MAX_LIMITS 64
struct sim_mps_limit {
	char device[48]; // a number, or a UUID
	unsigned long long mib;
};
struct sim_mps_limits {
	unsigned percent; // of the SMs, in 1/100: 10000 is all
	unsigned count;
	struct sim_mps_limit memory[SIM_MPS_MAX_LIMITS];
};

// Each reads one whole text and returns 0, or -1 for what is outside the grammar (then *out is untouched).
int sim_mps_parse_percent(const char *text, unsigned *hundredths);     // "25", "12.5", above 0 and up to 100
int sim_mps_parse_memory(const char *text, unsigned long long *mib);   // "2G", "2048M", "2GB", "512MB"
int sim_mps_set_memory(struct sim_mps_limits *l, const char *device, const char *value); // replaces that device's
int sim_mps_parse_list(const char *text, struct sim_mps_limits *l);    // "0=2G,GPU-5b...=512M", added to l

#endif
