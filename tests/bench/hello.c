/* The yardstick for HTTP figures: libmicrohttpd alone, one epoll thread, one constant text. POST
 * bodies are read and dropped. hello PORT; ends by itself after five minutes. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **context)
{
    static char text[] = "{\"hello\":\"world\",\"current\":\"AVX2\"}";
    (void)cls, (void)url, (void)method, (void)version, (void)data;
    if (!*context || *size) {
        *context = text;
        *size = 0;
        return MHD_YES;
    }
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(r, "Content-Type", "application/json");
    enum MHD_Result queued = MHD_queue_response(connection, 200, r);
    MHD_destroy_response(r);
    return queued;
}

int main(int argc, char **argv)
{
    struct MHD_Daemon *daemon =
        argc < 2 ? NULL
                 : MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO,
                                    (unsigned short)atoi(argv[1]), NULL, NULL, answer, NULL,
                                    MHD_OPTION_CONNECTION_LIMIT, 1024u, MHD_OPTION_END);
    if (!daemon)
        return 1;
    sleep(300);
    MHD_stop_daemon(daemon);
    return 0;
}
