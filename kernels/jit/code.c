/* Generated code in memory: where it lies, and which there is. */
#include "kernels/jit/code.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct kept {
    size_t bytes;
    unsigned char key[TD_LOOP_KEY];
    td_loop_code *code;
    const char *why;
} kept[TD_LOOP_KEPT];
static int n_kept;

static struct {
    char *written, *run; /* two views of the same memory; NULL: not yet, or refused */
    size_t used;
    bool refused;
} memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct td_loops counts; /* but for those kept, and bytes */

static atomic_bool forbidden;

void td_loops_allow(bool allowed)
{
    atomic_store(&forbidden, !allowed);
}

static bool open_memory(void)
{
    if (memory.run || memory.refused)
        return !memory.refused;
    int fd = memfd_create("tensord-loops", MFD_CLOEXEC);
    void *written = MAP_FAILED, *run = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, (off_t)TD_LOOP_ROOM)) {
        written = mmap(NULL, TD_LOOP_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        run = mmap(NULL, TD_LOOP_ROOM, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    }
    if (fd >= 0)
        close(fd);
    memory.refused = written == MAP_FAILED || run == MAP_FAILED;
    if (memory.refused && written != MAP_FAILED)
        munmap(written, TD_LOOP_ROOM);
    if (memory.refused && run != MAP_FAILED)
        munmap(run, TD_LOOP_ROOM);
    if (!memory.refused) {
        memory.written = written;
        memory.run = run;
    }
    return !memory.refused;
}

/* As many vectors a round as there are registers for. */
static bool lay_out(struct td_loop *l)
{
    static struct td_loop_step before[TD_LOOP_STEPS];
    struct td_loop_room room = td_loop_room(l->wide);
    for (int copies = TD_LOOP_COPIES; copies; copies /= 2) {
        if (!td_loop_flatten(l, copies))
            return false;
        memcpy(before, l->step, (size_t)l->n_steps * sizeof *before);
        if (!td_loop_allocate(l, room))
            continue;
        if (!td_loop_verify(before, l, room))
            l->why = "its registers were given wrongly";
        return !l->why;
    }
    l->why = "it holds more values at once than there are registers";
    return false;
}

static void make(struct kept *k, bool wide, td_loop_tell *tell, const void *arg)
{
    static struct td_loop l;
    k->code = NULL;
    k->why = NULL;
    if (!open_memory()) {
        k->why = "the machine gives no memory for code";
        return;
    }
    td_loop_begin(&l, wide);
    for (int part = TD_LOOP_MAIN; part <= TD_LOOP_CAREFUL && !l.why; part++) {
        l.part = (enum td_loop_part)part;
        tell(&l, arg);
    }
    if (l.why || !lay_out(&l)) {
        k->why = l.why;
        return;
    }
    size_t n = td_loop_emit(&l, memory.written + memory.used, TD_LOOP_ROOM - memory.used);
    if (!n) {
        k->why = "the room for code is full, or the build had no Xbyak";
        return;
    }
    k->code = (td_loop_code *)(uintptr_t)(memory.run + memory.used);
    memory.used += (n + 63) & ~(size_t)63;
}

td_loop_code *td_loop_for(const void *key, size_t bytes, bool wide, td_loop_tell *tell,
                          const void *arg, const char **why)
{
    td_loop_code *code = NULL;
    int i = 0;
    *why = atomic_load(&forbidden) ? "generating code is switched off" : "it is too long";
    if (atomic_load(&forbidden) || bytes > TD_LOOP_KEY)
        return NULL;
    pthread_mutex_lock(&lock);
    while (i < n_kept && (kept[i].bytes != bytes || memcmp(kept[i].key, key, bytes)))
        i++;
    if (i == n_kept && i < TD_LOOP_KEPT) {
        kept[i].bytes = bytes;
        memcpy(kept[i].key, key, bytes);
        make(&kept[i], wide, tell, arg);
        *(kept[i].code ? &counts.made : &counts.none) += 1;
        n_kept++;
    } else if (i == n_kept) {
        counts.full++;
    }
    *why = "as many loops are generated as are kept";
    if (i < n_kept) {
        code = kept[i].code;
        *why = kept[i].why;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

struct td_loops td_loops(void)
{
    pthread_mutex_lock(&lock);
    struct td_loops all = counts;
    all.kept = n_kept;
    all.bytes = memory.used;
    pthread_mutex_unlock(&lock);
    return all;
}
