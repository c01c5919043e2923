/* The yardstick for big bodies: libmicrohttpd alone, one epoll thread, that answers a POST with the
 * body it got. Each connection keeps its buffer, so no page is touched for the first time but in
 * its first request. echo PORT; ends by itself after five minutes. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct buffer {
    char *data;
    size_t size, room;
};

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)cls, (void)connection;
    struct buffer *b = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = calloc(1, sizeof *b);
    } else if (b) {
        free(b->data);
        free(b);
    }
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **context)
{
    (void)cls, (void)url, (void)method, (void)version;
    struct buffer *b =
        *(struct buffer **)MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (!*context) {
        const char *length =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        size_t room = length ? strtoul(length, NULL, 10) : 0;
        if (room > b->room) {
            free(b->data);
            b->data = malloc(room);
            b->room = b->data ? room : 0;
        }
        b->size = 0;
        *context = b;
        return room <= b->room ? MHD_YES : MHD_NO;
    }
    if (*size) {
        if (*size > b->room - b->size)
            return MHD_NO;
        memcpy(b->data + b->size, data, *size);
        b->size += *size;
        *size = 0;
        return MHD_YES;
    }
    struct MHD_Response *r =
        MHD_create_response_from_buffer(b->size, b->data, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(r, "Content-Type", "application/octet-stream");
    enum MHD_Result queued = MHD_queue_response(connection, 200, r);
    MHD_destroy_response(r);
    return queued;
}

int main(int argc, char **argv)
{
    struct MHD_Daemon *daemon =
        argc < 2
            ? NULL
            : MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO,
                               (unsigned short)atoi(argv[1]), NULL, NULL, answer, NULL,
                               MHD_OPTION_CONNECTION_LIMIT, 1024u, MHD_OPTION_NOTIFY_CONNECTION,
                               on_connection, NULL, MHD_OPTION_END);
    if (!daemon)
        return 1;
    sleep(300);
    MHD_stop_daemon(daemon);
    return 0;
}
