/* A reply that is made while it is sent. One side appends, from any thread; the server reads, and
 * when there is nothing yet, has itself woken. Each has a reference, and neither waits for the
 * other: who appends is told that nobody reads any more. */
#include "api/api.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct td_stream {
    int refs;
    pthread_mutex_t lock;
    char *text;
    size_t begin, end, room; /* of text: what has not been read; and all of it, of td_memory */
    bool ended, closed;
    void (*wake)(void *reader); /* it waits; NULL: it does not */
    void *reader;
};

struct td_stream *td_stream_create(void)
{
    struct td_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->refs = 2;
    pthread_mutex_init(&stream->lock, NULL);
    return stream;
}

/* With the lock held, which it gives back. */
static void leave(struct td_stream *stream)
{
    bool last = --stream->refs == 0;
    pthread_mutex_unlock(&stream->lock);
    if (!last)
        return;
    td_budget_give(&td_memory, stream->room);
    free(stream->text);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void wake_reader(struct td_stream *stream)
{
    void (*wake)(void *reader) = stream->wake;
    stream->wake = NULL;
    if (wake)
        wake(stream->reader);
}

static bool make_room(struct td_stream *stream, size_t size)
{
    size_t left = stream->end - stream->begin, room = stream->room ? stream->room : 1024;
    if (stream->begin && left)
        memmove(stream->text, stream->text + stream->begin, left);
    stream->begin = 0;
    stream->end = left;
    while (room - left < size)
        room *= 2;
    if (room == stream->room)
        return true;
    if (td_budget_take(&td_memory, room - stream->room))
        return false;
    char *more = realloc(stream->text, room);
    if (!more) {
        td_budget_give(&td_memory, room - stream->room);
        return false;
    }
    stream->text = more;
    stream->room = room;
    return true;
}

bool td_stream_append(struct td_stream *stream, const char *text, size_t size)
{
    pthread_mutex_lock(&stream->lock);
    bool fits = !stream->closed && make_room(stream, size);
    if (fits) {
        memcpy(stream->text + stream->end, text, size);
        stream->end += size;
        wake_reader(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    return fits;
}

void td_stream_end(struct td_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->ended = true;
    wake_reader(stream);
    leave(stream);
}

long td_stream_read(struct td_stream *stream, char *to, size_t room, void (*hold)(void *reader),
                    void (*wake)(void *reader), void *reader)
{
    pthread_mutex_lock(&stream->lock);
    size_t left = stream->end - stream->begin, n = left < room ? left : room;
    if (n)
        memcpy(to, stream->text + stream->begin, n);
    stream->begin += n;
    bool waits = !n && !stream->ended;
    if (waits) {
        stream->wake = wake;
        stream->reader = reader;
        hold(reader);
    }
    bool over = !n && stream->ended;
    pthread_mutex_unlock(&stream->lock);
    return over ? -1 : (long)n;
}

void td_stream_close(struct td_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->closed = true;
    stream->wake = NULL;
    leave(stream);
}
