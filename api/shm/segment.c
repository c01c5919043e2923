/* Shared memory of clients, and what becomes of a kernel that touches a page its owner has taken
 * away: the processor faults, Linux sends SIGBUS.
 *
 * Copying everything through read(2) would never fault, but costs what shared memory is there to
 * save. So kernels work in the mapping itself, and SIGBUS is answered: its handler
 * (kernels/trap.c) asks here, where the address is looked up among the segments; the one that
 * it lies in is marked as broken, an anonymous mapping of zeros is laid over all of it (one system
 * call, whatever its size; a page at a time would run into the limit on mappings), and the
 * instruction is tried again and succeeds. The call goes on to its end and then finds the mark. A
 * fault anywhere else is no segment's, and goes the way of all traps.
 *
 * That may run on any thread at any moment, so it takes no lock: `slots` is a fixed table of
 * atomics, and a slot's `turn` is odd while it changes. The slot of a segment that is in use does
 * not change, so a handler can only miss slots that are not its fault's. `lock` serialises the
 * writers of the table.
 *
 * A page that the client has not written yet is made when a kernel touches it, if only to read, and
 * counts as the server's with whoever limits that: so such pages are taken from td_memory, until
 * the segment is let go. */
#include "api/shm/segment.h"
#include "kernels/trap.h"
#include "pools/pools.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

struct slot {
    atomic_uint turn;
    _Atomic uintptr_t begin; /* the mapping; 0: the slot is free */
    atomic_size_t size;
    atomic_bool broken;
};

struct td_segment {
    atomic_int refs;
    int fd;
    char *map, *data; /* the mapping, at a page; and the first byte asked for */
    size_t map_size, size, offset;
    dev_t device; /* these two tell objects apart, whatever they are called */
    ino_t inode;
    struct slot *slot;
    atomic_size_t charged; /* bytes of td_memory */
};

static struct slot slots[TD_MAX_SEGMENTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- faults ---- */

/* Whether the slot's mapping holds the address; its bounds are then in begin and size. */
static bool holds(struct slot *slot, uintptr_t address, uintptr_t *begin, size_t *size)
{
    unsigned turn = atomic_load(&slot->turn);
    *begin = atomic_load(&slot->begin);
    *size = atomic_load(&slot->size);
    return !(turn & 1) && *begin && address - *begin < *size && atomic_load(&slot->turn) == turn;
}

/* td_trap_mend: by any thread, in the signal's handler. */
static bool mend(const void *address)
{
    uintptr_t begin;
    size_t size;
    for (int i = 0; i < TD_MAX_SEGMENTS; i++) {
        if (!holds(&slots[i], (uintptr_t)address, &begin, &size))
            continue;
        atomic_store(&slots[i].broken, true);
        long at = syscall(SYS_mmap, begin, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        return (uintptr_t)at == begin;
    }
    return false;
}

void td_segment_init(void)
{
    td_trap_mender(mend);
}

static void set_slot(struct slot *slot, uintptr_t begin, size_t size)
{
    atomic_fetch_add(&slot->turn, 1);
    atomic_store(&slot->begin, begin);
    atomic_store(&slot->size, size);
    atomic_store(&slot->broken, false);
    atomic_fetch_add(&slot->turn, 1);
}

static struct slot *take_slot(const struct td_segment *segment)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < TD_MAX_SEGMENTS && !slot; i++)
        if (!atomic_load(&slots[i].begin))
            slot = &slots[i];
    if (slot)
        set_slot(slot, (uintptr_t)segment->map, segment->map_size);
    pthread_mutex_unlock(&lock);
    return slot;
}

/* ---- life ---- */

static int refuse_open(const char *key, int error, struct td_problem *problem)
{
    if (error == ENOENT)
        return td_problem_set(
            problem, ENOENT, "key: there is no shared memory object '%.100s' where the server runs",
            key);
    if (error == EACCES || error == EPERM)
        return td_problem_set(problem, EINVAL,
                              "key: the server's user may not read and write '%.100s'", key);
    return td_problem_set(problem, error == ENOMEM || error == EMFILE ? ENOMEM : EINVAL,
                          "key: '%.100s' cannot be opened: %s", key, strerror(error));
}

/* Opens the object and looks whether it is what it should be. */
static int open_object(struct td_segment *segment, const char *key, struct td_problem *problem)
{
    struct stat st;
    segment->fd = shm_open(key, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    if (segment->fd < 0 || fstat(segment->fd, &st))
        return refuse_open(key, errno, problem);
    if (!S_ISREG(st.st_mode))
        return td_problem_set(problem, EINVAL, "key: '%.100s' is no shared memory object", key);
    if (st.st_size < 0 || (size_t)st.st_size < segment->offset + segment->size)
        return td_problem_set(problem, EINVAL,
                              "byte_size: '%.100s' has %lld bytes, but offset + byte_size is %zu",
                              key, (long long)st.st_size, segment->offset + segment->size);
    segment->device = st.st_dev;
    segment->inode = st.st_ino;
    return 0;
}

/* Maps it, with a page of nobody's behind it, which may be read. */
static int map(struct td_segment *segment)
{
    size_t shift = segment->offset % PAGE;
    size_t size = (shift + segment->size + PAGE - 1) / PAGE * PAGE;
    char *room =
        mmap(NULL, size + PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return -ENOMEM;
    segment->map = room;
    segment->map_size = size;
    segment->data = room + shift;
    if (mmap(room, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, segment->fd,
             (off_t)(segment->offset - shift)) == MAP_FAILED)
        return -ENOMEM;
    return 0;
}

static void destroy(struct td_segment *segment)
{
    if (segment->slot) { /* before the addresses can become somebody else's */
        pthread_mutex_lock(&lock);
        set_slot(segment->slot, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    td_budget_give(&td_memory, segment->charged);
    if (segment->map)
        munmap(segment->map, segment->map_size + PAGE);
    if (segment->fd >= 0)
        close(segment->fd);
    free(segment);
}

int td_segment_open(struct td_segment **result, const char *key, size_t offset, size_t size,
                    struct td_problem *problem)
{
    struct td_segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return td_problem_set(problem, ENOMEM, "no memory for the region");
    atomic_init(&segment->refs, 1);
    segment->fd = -1;
    segment->offset = offset;
    segment->size = size;
    int err = open_object(segment, key, problem);
    if (!err && map(segment))
        err = td_problem_set(problem, ENOMEM, "no room for a mapping of %zu bytes", size);
    if (!err && !(segment->slot = take_slot(segment)))
        err = td_problem_set(problem, ENOMEM, "%d segments are mapped, and that is the most",
                             TD_MAX_SEGMENTS);
    if (err)
        destroy(segment);
    else
        *result = segment;
    return err;
}

struct td_segment *td_segment_ref(struct td_segment *segment)
{
    atomic_fetch_add(&segment->refs, 1);
    return segment;
}

void td_segment_unref(struct td_segment **segment)
{
    struct td_segment *old = *segment;
    *segment = NULL;
    if (old && atomic_fetch_sub(&old->refs, 1) == 1)
        destroy(old);
}

/* ---- looking ---- */

char *td_segment_data(const struct td_segment *segment)
{
    return segment->data;
}

size_t td_segment_size(const struct td_segment *segment)
{
    return segment->size;
}

size_t td_segment_left(const struct td_segment *segment)
{
    struct stat st;
    if (fstat(segment->fd, &st) || st.st_size < 0 || (size_t)st.st_size < segment->offset)
        return 0;
    size_t left = (size_t)st.st_size - segment->offset;
    return left < segment->size ? left : segment->size;
}

bool td_segment_is_broken(const struct td_segment *segment)
{
    return atomic_load(&segment->slot->broken);
}

void td_segment_clear(struct td_segment *segment)
{
    if (td_segment_is_broken(segment))
        madvise(segment->map, segment->map_size, MADV_DONTNEED);
}

/* ---- pages that are not there yet ---- */

#define LOOKED_AT 4096 /* pages at a time */

/* How many bytes of whole pages the object has not. */
static size_t holes(const struct td_segment *segment, size_t at, size_t size)
{
    unsigned char there[LOOKED_AT];
    struct stat st;
    if (!size || (!fstat(segment->fd, &st) && (size_t)st.st_blocks * 512 >= (size_t)st.st_size))
        return 0; /* that is most objects, and one system call */
    char *page = segment->data + at - (size_t)(segment->data + at - segment->map) % PAGE;
    size_t n = ((size_t)(segment->data + at + size - page) + PAGE - 1) / PAGE, missing = 0;
    while (n) {
        size_t some = n < LOOKED_AT ? n : LOOKED_AT;
        if (mincore(page, some * PAGE, there))
            return missing;
        for (size_t i = 0; i < some; i++)
            missing += !(there[i] & 1);
        page += some * PAGE;
        n -= some;
    }
    return missing * PAGE;
}

int td_segment_charge(struct td_segment *segment, size_t at, size_t size, size_t *charged)
{
    size_t bytes = holes(segment, at, size), all = segment->charged;
    *charged = 0;
    if (bytes > segment->map_size - (all < segment->map_size ? all : segment->map_size))
        bytes = all < segment->map_size ? segment->map_size - all : 0; /* others do the same */
    if (!bytes)
        return 0;
    if (td_budget_take(&td_memory, bytes))
        return -ENOMEM;
    atomic_fetch_add(&segment->charged, bytes);
    *charged = bytes;
    return 0;
}

void td_segment_settle(struct td_segment *segment, size_t at, size_t size, size_t charged)
{
    size_t left = charged ? holes(segment, at, size) : 0;
    left = left < charged ? left : charged;
    atomic_fetch_sub(&segment->charged, left);
    td_budget_give(&td_memory, left);
}

enum td_overlap td_segment_overlap(const struct td_segment *a, size_t a_at, size_t a_size,
                                   const struct td_segment *b, size_t b_at, size_t b_size)
{
    size_t a_begin = a->offset + a_at, b_begin = b->offset + b_at;
    if (a->device != b->device || a->inode != b->inode || !a_size || !b_size ||
        a_begin + a_size <= b_begin || b_begin + b_size <= a_begin)
        return TD_APART;
    return a_begin == b_begin && a_size == b_size ? TD_SAME : TD_PARTLY;
}
