/* Peers in a Python that the command line names: a process of peers.py, which is given each network
 * with its inputs, and what the plan answered. Internal to server/report. */
#ifndef TD_SERVER_REPORT_PEERS_H
#define TD_SERVER_REPORT_PEERS_H

#include "server/report/client.h"

#define TD_PEERS 3
#define TD_PEER_FILES 64

extern const char td_peers_script[]; /* peers.py, made by embed.py */

struct td_peer_told { /* by a peer, of a network */
    double us;        /* its least; 0: there is none, and why: */
    double worst;     /* difference of its outputs from ours, by what may be */
    char why[200];
};

struct td_peers {
    struct td_child child; /* pid -1: there is none */
    struct td_problem problem;
    int n;
    struct {
        char name[24], version[24];
    } peer[TD_PEERS];
    int n_missing;
    struct {
        char name[24], why[200];
    } missing[TD_PEERS];
    struct td_writer inputs, outputs; /* of the network at work, for orders */
    int model, file[TD_PEER_FILES], n_files;
};

/* Starts them in this Python, or, where it is NULL, none. problem says why there are none. */
void td_peers_start(struct td_peers *p, const char *python, struct td_arena *arena);
void td_peers_stop(struct td_peers *p);

/* A network with its files: until the next begin, or stop. Memory that is read by the peers is kept
 * in files without names. */
void td_peers_begin(struct td_peers *p, struct td_arena *arena, const void *model, size_t size);
void td_peers_input(struct td_peers *p, const char *name, const void *npy, size_t size);
void td_peers_output(struct td_peers *p, const struct td_tensor *tensor);
/* Has each run it on so many threads, on the first CPUs of the list: told has one for each. */
void td_peers_ask(struct td_peers *p, struct td_arena *arena, int threads, const int *cpus,
                  double seconds, struct td_peer_told *told);

#endif
