/* AMX for tests on a CPU that has none: see emulate.c. */
#ifndef TD_TESTS_AMX_EMULATE_H
#define TD_TESTS_AMX_EMULATE_H

/* Catches SIGILL from now on and carries out the tile instruction it came from; any other goes to
 * the handler that was there before. On a CPU with AMX it is never called. */
void emulate_amx_start(void);

/* Tile instructions carried out so far, by all threads. */
long emulate_amx_count(void);

#endif
