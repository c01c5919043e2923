/* A part of a POSIX shared memory object that a client owns, mapped here. The client may shrink or
 * remove the object at any time, even while a kernel reads it: whoever uses a segment says so with
 * a reference, and asks at the end whether it held. Internal to api/. */
#ifndef TD_API_SEGMENT_H
#define TD_API_SEGMENT_H

#include "kernels/kernels.h"

#define TD_MAX_SEGMENTS 256 /* mapped at a time */

struct td_segment;

/* Has faults on segments answered with zeros instead of the process's end. Any number of calls. */
void td_segment_init(void);

/* Maps size bytes of the object called key ("/name") from offset on, which need be no multiple of
 * anything. *segment has one reference. -ENOENT (there is no such object), -EINVAL (it may not be
 * opened, is no memory, or ends before offset + size), -ENOMEM (also: too many segments); the
 * sentence is in problem. 64 bytes beyond the end may be read. */
int td_segment_open(struct td_segment **segment, const char *key, size_t offset, size_t size,
                    struct td_problem *problem);
struct td_segment *td_segment_ref(struct td_segment *segment);
void td_segment_unref(struct td_segment **segment); /* nulls the pointer; NULL is fine */

char *td_segment_data(const struct td_segment *segment); /* its first byte */
size_t td_segment_size(const struct td_segment *segment);

/* How many of the segment's bytes the object still has, at this moment. */
size_t td_segment_left(const struct td_segment *segment);

/* Before bytes [at, at + size) are used: takes from td_memory the pages of them that the object
 * does not have yet, as touching them makes them, for this process's account; they are the
 * segment's from then on. -ENOMEM. *charged is for td_segment_settle, which is due after the use,
 * and gives back what was not touched. */
int td_segment_charge(struct td_segment *segment, size_t at, size_t size, size_t *charged);
void td_segment_settle(struct td_segment *segment, size_t at, size_t size, size_t charged);

/* The object ended before a byte that was used, or the system had no memory for it: from then on
 * the segment is zeros that nobody else sees, and nothing computed with it is worth anything. */
bool td_segment_is_broken(const struct td_segment *segment);

/* Gives back what was written to a broken segment. Nothing is done to others. */
void td_segment_clear(struct td_segment *segment);

/* Whether bytes [a_at, a_at + a_size) of a and those of b are, in part, the same memory. */
enum td_overlap { TD_APART, TD_PARTLY, TD_SAME };
enum td_overlap td_segment_overlap(const struct td_segment *a, size_t a_at, size_t a_size,
                                   const struct td_segment *b, size_t b_at, size_t b_size);

#endif
