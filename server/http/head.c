/* A request's head, judged before anything is made of it: whether all who read it must agree where
 * the request ends (RFC 9112; else what follows a body could be taken for a request that somebody
 * in front of us has not seen), and whether a browser sent it for a page that is none of ours.
 *
 * libmicrohttpd takes much that it should not, older ones more; what it lets through is refused
 * here. Before 0.9.77 it ends names and values at a zero byte, joins folded lines and takes a bare
 * line feed for the end of one, and says nothing: but the lines still lie where they came, so each
 * must begin two bytes after the last one's end. */
#include "server/http/threads.h"

#include "server/http/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SAYS_WHAT_IT_SKIPS (MHD_VERSION >= 0x00097700)

struct fields { /* one walk over all headers: a look-up of each would walk, and compare, anew */
    const char *host, *length, *transfer, *encoding, *origin, *type, *prefer, *json_length, *asks,
        *id, *trace, *authorization;
    int hosts, lengths, transfers, authorizations;
    bool forwarded;
    const char *wrong; /* what the first wrong one is, or NULL */
    const char *next;  /* where the next line must begin; NULL: that cannot be told */
};

enum { IN_NAME = 1, IN_TARGET = 2, IN_VALUE = 4 };
#define NAME IN_NAME | IN_TARGET | IN_VALUE
#define TEXT IN_TARGET | IN_VALUE

/* In which parts of a head a character may be. Names are tokens (RFC 9110, 5.6.2). */
static const unsigned char may_be[256] = {
    ['\t'] = IN_VALUE,     [' '] = IN_VALUE,     ['!'] = NAME,         ['"'] = TEXT,
    ['#' ... '\''] = NAME, ['(' ... ')'] = TEXT, ['*' ... '+'] = NAME, [','] = TEXT,
    ['-' ... '.'] = NAME,  ['/'] = TEXT,         ['0' ... '9'] = NAME, [':' ... '@'] = TEXT,
    ['A' ... 'Z'] = NAME,  ['[' ... ']'] = TEXT, ['^' ... 'z'] = NAME, ['{'] = TEXT,
    ['|'] = NAME,          ['}'] = TEXT,         ['~'] = NAME,         [128 ... 255] = TEXT,
};

static bool is_made_of(int part, const char *text, size_t n)
{
    int all = part;
    for (size_t i = 0; i < n; i++)
        all &= may_be[(unsigned char)text[i]];
    return all;
}

void td_http_line_begin(struct td_http_line *line, const char *target)
{
    line->target = target;
    line->size = strlen(target);
    line->target_is_right = is_made_of(IN_TARGET, target, line->size);
}

static const char **place(struct fields *f, const char *name, size_t n)
{
#define IS(text) (n == sizeof text - 1 && !strncasecmp(name, text, sizeof text - 1))
    switch (*name | 0x20) {
    case 'a':
        f->authorizations += IS("Authorization");
        return IS("Authorization")                   ? &f->authorization
               : IS("Access-Control-Request-Method") ? &f->asks
                                                     : NULL;
    case 'c':
        f->lengths += IS("Content-Length");
        return IS("Content-Length")     ? &f->length
               : IS("Content-Type")     ? &f->type
               : IS("Content-Encoding") ? &f->encoding
                                        : NULL;
    case 'f':
        f->forwarded |= IS("Forwarded");
        return NULL;
    case 'h':
        f->hosts += IS("Host");
        return IS("Host") ? &f->host : NULL;
    case 'i':
        return IS("Inference-Header-Content-Length") ? &f->json_length : NULL;
    case 'o':
        return IS("Origin") ? &f->origin : NULL;
    case 'p':
        return IS("Prefer") ? &f->prefer : NULL;
    case 't':
        f->transfers += IS("Transfer-Encoding");
        return IS("Transfer-Encoding") ? &f->transfer : IS(TD_TRACE_HEADER) ? &f->trace : NULL;
    case 'x':
        f->forwarded |= IS("X-Forwarded-For");
        return IS(TD_ID_HEADER) ? &f->id : NULL;
    default:
        return NULL;
    }
#undef IS
}

/* MHD_KeyValueIteratorN. Where a header comes twice, the first counts. */
static enum MHD_Result note_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
    struct fields *f = cls;
    (void)kind;
    if (!value) {
        value = "";
        value_size = 0;
    }
    if (!name_size || !is_made_of(IN_NAME, name, name_size))
        f->wrong = "a header's name holds what no name may hold, such as a space before the colon";
    else if (!is_made_of(IN_VALUE, value, value_size))
        f->wrong = "a header's value holds a control character, such as a bare CR";
    else if (f->next && name != f->next)
        f->wrong = "a header holds a zero byte, is folded over lines, or ends without CR LF";
    if (f->next)
        f->next = value + value_size + 2;
    const char **to = place(f, name, name_size);
    if (to && !*to)
        *to = value;
    return MHD_YES;
}

/* What is wrong with where the lines and the body lie; NULL when nothing is. */
static const char *judge_framing(const struct fields *f, const struct td_http_line *line)
{
    bool is_1_0 = !strcmp(line->version, "HTTP/1.0");
    if (f->wrong)
        return f->wrong;
    if (f->next && f->next + 2 != line->end)
        return "a header holds a zero byte, is folded over lines, or ends without CR LF";
    if (f->lengths > 1)
        return "Content-Length: comes more than once";
    if (f->transfers && f->lengths)
        return "Content-Length beside Transfer-Encoding: only one may say where the body ends";
    if (f->transfers && is_1_0)
        return "Transfer-Encoding: HTTP/1.0 has none";
    if (f->transfers > 1)
        return "Transfer-Encoding: comes more than once";
    if (f->hosts > 1 || (!f->hosts && !is_1_0))
        return "Host: must come once";
    return NULL;
}

/* The request line, as it came. */
static const char *judge_line(const struct td_http_line *line)
{
    size_t n = strlen(line->method);
    if (!n || !is_made_of(IN_NAME, line->method, n))
        return "the method is not a word";
    if (!line->target_is_right)
        return "the path holds a space or a control character";
#if !SAYS_WHAT_IT_SKIPS
    if (line->method + n + 1 != line->target || line->target + line->size + 1 != line->version)
        return "the request line holds a zero byte, or more than one space between its parts";
#endif
    return NULL;
}

/* http://host/path (RFC 9112, 3.2.2): the host counts, whatever the header says. */
static int read_absolute(struct td_request *req, struct fields *f)
{
    const char *path = req->path;
    size_t scheme = !strncasecmp(path, "http://", 7)    ? 7
                    : !strncasecmp(path, "https://", 8) ? 8
                                                        : 0;
    if (!scheme)
        return 0;
    size_t n = strcspn(path + scheme, "/");
    f->host = td_arena_strdup(req->arena, path + scheme, n);
    req->path = path[scheme + n] ? path + scheme + n : "/";
    return f->host ? 0 : td_api_problem(req, -ENOMEM, "no memory for the request");
}

/* Clients name the same host again and again: the last one that was right is remembered. */
static int judge_sender(struct td_http_thread *thread, const struct td_http_line *line,
                        struct td_request *req, const struct fields *f)
{
    const struct td_http_config *config = &thread->http->config;
    bool known = line->over_ip && (thread->host_of_loopback || !line->loopback);
    if (!f->origin && known && f->host && !strcmp(f->host, thread->host))
        return 0;
    if (f->host && *f->host && !td_host_is_right(f->host))
        return td_api_problem(req, -EINVAL, "Host: '%.80s' is no host", f->host);
    if (line->loopback && f->host && !td_host_is_ours(f->host, config->allow_host))
        return td_api_problem(req, -EACCES,
                              "Host: '%.80s' is not taken over loopback; right are localhost, a "
                              "loopback address and what --allow-host names",
                              f->host);
    if (line->over_ip && f->host && !td_host_is_inside(f->host, config->allow_host))
        return td_api_problem(req, -EACCES,
                              "Host: '%.80s' is a name that a page may have given to this "
                              "address; right are the address, names of this network, and what "
                              "--allow-host names",
                              f->host);
    if (f->origin && !td_origin_is_ours(f->origin, f->host, config->allow_origin))
        return td_api_problem(req, -EACCES,
                              "Origin: '%.80s' is another page's; right are this server's own "
                              "and what --allow-origin names",
                              f->origin);
    if (line->over_ip && f->host && strlen(f->host) < sizeof thread->host) {
        strcpy(thread->host, f->host);
        thread->host_of_loopback = line->loopback;
    }
    return 0;
}

static int judge(struct td_http_thread *thread, const struct td_http_line *line,
                 struct td_request *req, struct fields *f, bool *close)
{
    size_t size = (size_t)(line->end - line->method);
    const char *wrong = judge_line(line);
    *close = true;
    /* First, as paths are logged, and a secret may stand before a host. */
    int err = read_absolute(req, f);
    if (err)
        return err;
    if (!wrong)
        wrong = judge_framing(f, line);
    if (wrong)
        return td_api_problem(req, -EINVAL, "%s", wrong);
    if (f->transfer && strcasecmp(f->transfer, "chunked"))
        return td_api_problem(req, -ENOSYS,
                              "Transfer-Encoding: '%.80s' is not known here; right is "
                              "chunked",
                              f->transfer);
    if (size > req->service->limits.headers)
        return td_api_problem(req, -EOVERFLOW, "the headers have %zu bytes; at most %zu are taken",
                              size, req->service->limits.headers);
    *close = false;
    err = judge_sender(thread, line, req, f);
    if (!err && f->encoding && strcasecmp(f->encoding, "identity"))
        err = td_api_problem(req, -EPROTONOSUPPORT,
                             "Content-Encoding: '%.80s' is not known here; send the body as it is",
                             f->encoding);
    return err;
}

int td_http_head_judge(struct td_http_thread *thread, struct MHD_Connection *connection,
                       const struct td_http_line *line, struct td_request *req,
                       struct td_http_head *head)
{
    struct fields f = {0};
#if !SAYS_WHAT_IT_SKIPS
    f.next = line->version + strlen(line->version) + 2;
#endif
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, note_field, &f);
    int err = judge(thread, line, req, &f, &head->must_close);
    req->local = td_listener_is_local(&thread->http->listener) && !f.forwarded;
    req->authorization = f.authorization;
    req->authorizations = f.authorizations;
    if (req->method == TD_POST || req->method == TD_PUT) {
        if (f.length)
            req->content_length = strtoull(f.length, NULL, 10);
        req->content_type = f.type;
        req->prefer = f.prefer;
        req->json_length_text = f.json_length;
    }
    head->id = td_http_id_judge(f.id);
    head->trace = td_http_trace_judge(f.trace);
    if (err)
        return err;
    head->origin = f.origin;
    head->preflight = f.origin && f.asks && req->method == TD_OPTIONS;
    return 0;
}
