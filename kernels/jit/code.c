/* Generated code in memory: where it lies, which there is, and what it was made of, for those who
 * look. */
#include "kernels/jit/code.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kept {
    size_t bytes;
    unsigned char key[TD_LOOP_KEY];
    char name[TD_LOOP_NAME];
    struct td_loop_view view;
} kept[TD_LOOP_KEPT];
static int n_kept;

static struct {
    char folder[3000];
    void (*say)(const char *sentence);
    bool fails;
} dump;

static struct {
    char *written, *run; /* two views of the same memory; NULL: not yet, or refused */
    size_t used;
    bool refused;
} memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct td_loops counts; /* but for those kept, and bytes */

static atomic_bool forbidden;

static atomic_llong refusals[TD_REASONS];

void td_loop_refused(const char *why)
{
    int i = 0;
    while (i < TD_REASONS && td_loop_reasons[i] != why)
        i++;
    assert(i < TD_REASONS);
    atomic_fetch_add_explicit(&refusals[i], 1, memory_order_relaxed);
}

long long td_loop_refusals(enum td_loop_reason reason)
{
    return atomic_load_explicit(&refusals[reason], memory_order_relaxed);
}

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
    room.values -= l->sum >= 0 ? TD_LOOP_COPIES : 0;
    for (int copies = TD_LOOP_COPIES; copies > (l->sum >= 0 ? TD_LOOP_COPIES / 2 : 0);
         copies /= 2) {
        if (!td_loop_flatten(l, copies))
            return false;
        memcpy(before, l->step, (size_t)l->n_steps * sizeof *before);
        if (!td_loop_allocate(l, room))
            continue;
        if (!td_loop_verify(before, l, room))
            l->why = TD_WHY(registers);
        return !l->why;
    }
    l->why = TD_WHY(values);
    return false;
}

/* What the loop was made of, in one piece of memory; without any nothing is kept. */
static void keep_program(struct td_loop_view *v, const struct td_loop *l, const uint32_t *at)
{
    size_t constants = (size_t)l->n_constants * sizeof *l->constant;
    size_t steps = (size_t)l->n_steps * sizeof *l->step;
    size_t places = ((size_t)l->n_steps + 1) * sizeof *at;
    char *room = malloc(constants + places + steps);
    if (!room)
        return;
    v->n_constants = l->n_constants;
    v->n_steps = l->n_steps;
    v->constant = memcpy(room, l->constant, constants);
    v->at = memcpy(room + constants, at, places);
    v->step = memcpy(room + constants + places, l->step, steps);
}

/* Under the name that it has at the end: who finds the file finds all of it. */
static int write_file(const char *name, const void *bytes, size_t n)
{
    char path[sizeof dump.folder + TD_LOOP_NAME + 64], made[sizeof path + 8];
    snprintf(path, sizeof path, "%s/%s", dump.folder, name);
    snprintf(made, sizeof made, "%s.part", path);
    /* Without O_NONBLOCK, open() of a FIFO blocks until another process reads it. */
    int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return -EEXIST;
    }
    ssize_t written = write(fd, bytes, n);
    int err = written == (ssize_t)n ? 0 : written < 0 ? -errno : -ENOSPC;
    if (close(fd) && !err)
        err = -errno;
    if (!err && rename(made, path))
        err = -errno;
    if (err)
        unlink(made);
    return err;
}

static void dump_loop(const struct kept *k)
{
    char name[TD_LOOP_NAME + 64], sentence[TD_LOOP_NAME + 256];
    int n = snprintf(name, sizeof name, "%03d-%s-%s.bin", (int)(k - kept), k->name,
                     k->view.wide ? "avx512" : "avx2");
    for (int i = 0; i < n; i++)
        name[i] = name[i] == ' ' ? '+' : name[i];
    int err = write_file(name, k->view.code, k->view.bytes);
    if (!err || dump.fails)
        return;
    dump.fails = true;
    snprintf(sentence, sizeof sentence, "dump-jit: %s cannot be written: %s", name, strerror(-err));
    dump.say(sentence);
}

int td_loops_dump(const char *folder, void (*say)(const char *sentence))
{
    struct stat st;
    if (stat(folder, &st))
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (access(folder, W_OK | X_OK))
        return -errno;
    if (strlen(folder) >= sizeof dump.folder)
        return -ENAMETOOLONG;
    pthread_mutex_lock(&lock);
    strcpy(dump.folder, folder);
    dump.say = say;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void make(struct kept *k, bool wide, td_loop_tell *tell, const void *arg)
{
    static struct td_loop l;
    static uint32_t at[TD_LOOP_STEPS + 1];
    *k->name = 0;
    k->view = (struct td_loop_view){.name = k->name, .wide = wide};
    if (!open_memory()) {
        k->view.why = TD_WHY(memory);
        return;
    }
    td_loop_begin(&l, wide);
    for (int part = TD_LOOP_MAIN; part <= TD_LOOP_CAREFUL && !l.why; part++) {
        l.part = (enum td_loop_part)part;
        tell(&l, arg);
    }
    memcpy(k->name, l.name, sizeof k->name);
    if (l.why || !lay_out(&l)) {
        k->view.why = l.why;
        return;
    }
    size_t n = td_loop_emit(&l, memory.written + memory.used, TD_LOOP_ROOM - memory.used, at);
    if (!n) {
        k->view.why = TD_WHY(room);
        return;
    }
    k->view.code = memory.run + memory.used;
    k->view.run = (td_loop_code *)(uintptr_t)k->view.code;
    k->view.copies = l.copies;
    k->view.sum = l.sum;
    k->view.bytes = n;
    k->view.rest = n - at[l.n_steps];
    keep_program(&k->view, &l, at);
    memory.used += (n + 63) & ~(size_t)63;
    if (*dump.folder)
        dump_loop(k);
}

td_loop_code *td_loop_for(const void *key, size_t bytes, bool wide, td_loop_tell *tell,
                          const void *arg, const char **why)
{
    td_loop_code *code = NULL;
    int i = 0;
    *why = atomic_load(&forbidden) ? TD_WHY(off) : TD_WHY(length);
    if (atomic_load(&forbidden) || bytes > TD_LOOP_KEY)
        return NULL;
    pthread_mutex_lock(&lock);
    while (i < n_kept && (kept[i].bytes != bytes || memcmp(kept[i].key, key, bytes)))
        i++;
    if (i < n_kept) {
        kept[i].view.asked++;
    } else if (i < TD_LOOP_KEPT) {
        kept[i].bytes = bytes;
        memcpy(kept[i].key, key, bytes);
        make(&kept[i], wide, tell, arg);
        *(kept[i].view.run ? &counts.made : &counts.none) += 1;
        n_kept++;
    } else {
        counts.full++;
    }
    *why = TD_WHY(kept);
    if (i < n_kept) {
        code = kept[i].view.run;
        *why = kept[i].view.why;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

bool td_loop_at(int number, struct td_loop_view *view)
{
    pthread_mutex_lock(&lock);
    bool there = number >= 0 && number < n_kept;
    if (there)
        *view = kept[number].view;
    pthread_mutex_unlock(&lock);
    return there;
}

int td_loop_number(td_loop_code *run)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_kept && kept[i].view.run != run)
        i++;
    pthread_mutex_unlock(&lock);
    return i;
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
