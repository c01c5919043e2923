/* What the fuzzers share: bytes as a source of choices, and a process that is set up once. */
#ifndef TD_TESTS_FUZZ_H
#define TD_TESTS_FUZZ_H

#include "dispatch/dispatch.h"
#include "pools/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY ((size_t)256 << 20)
#define WORK_NS 30000000 /* what is computed for one input is stopped after that */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

static inline void must(bool good)
{
    if (!good)
        abort();
}

struct bytes { /* what is left of an input; behind its end there are zeros */
    const uint8_t *at, *end;
};

static inline unsigned take(struct bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

static inline int64_t take_int(struct bytes *b)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | take(b);
    return (int64_t)v;
}

#define PICK(b, list) ((list)[take(b) % (sizeof(list) / sizeof *(list))])

/* The operators, for calls on one thread. */
static inline void fuzz_start(void)
{
    struct td_problem problem = {""};
    td_memory.limit = MEMORY;
    if (td_cpu_init(NULL, &problem) || td_registry_init(&problem)) {
        fprintf(stderr, "%s\n", problem.text);
        exit(2);
    }
}

#endif
