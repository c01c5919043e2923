/* Reads a model that comes in one file with the files of its weights: multipart/form-data,
 * recognized by its first line, whose parts are not copied; or a zip that contains a .onnx, whose
 * entries are inflated. Zip bombs and names that lead out of the bundle are refused. */
#include "dispatch/model/bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define MOST 1024 /* files, at most */
#define NAME 256  /* bytes of a name, with the final 0 */
#define NONE 1
#define INFLATES 64 /* a zip may inflate to this many times its size, plus a megabyte */

static int wrong(struct td_problem *problem, const char *why, const char *name)
{
    return td_problem_set(problem, EINVAL, "the model's files: '%.100s' %s", name, why);
}

static int take(struct td_bundle *b, size_t bytes, struct td_problem *problem)
{
    if (td_budget_take(&td_memory, bytes))
        return td_problem_set(problem, ENOMEM, "no memory for the model's files");
    b->taken_ = bytes;
    b->room_ = calloc(1, bytes);
    return b->room_ ? 0 : td_problem_set(problem, ENOMEM, "no memory for the model's files");
}

static bool ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);
    return n >= m && !strcmp(name + n - m, with);
}

/* Whether the name is a relative path that stays inside the bundle. */
static bool is_right(const char *name)
{
    if (!*name || *name == '/' || strchr(name, '\\'))
        return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
            return false;
    return true;
}

/* Checks the files' names, and finds the model: the only .onnx, or the form's field "model". */
static int find_model(struct td_bundle *b, struct td_problem *problem)
{
    int found = 0;
    for (int i = 0; i < b->files.n; i++) {
        const struct td_file *f = &b->file_[i];
        if (!is_right(f->name))
            return wrong(problem, "is no name of a file beside the model", f->name);
        for (int k = 0; k < i; k++)
            if (!strcmp(b->file_[k].name, f->name))
                return wrong(problem, "is there twice", f->name);
        bool is = !strcmp(f->field, "model") || (ends(f->name, ".onnx") && !b->model);
        found += ends(f->name, ".onnx") || !strcmp(f->field, "model");
        b->model = is ? f : b->model;
    }
    if (!b->model || (found > 1 && strcmp(b->model->field, "model") != 0))
        return td_problem_set(
            problem, EINVAL,
            "the model's files: one called .onnx, or the form's field 'model', is "
            "right, not %d",
            found);
    const char *slash = strrchr(b->model->name, '/');
    size_t folder = slash ? (size_t)(slash + 1 - b->model->name) : 0;
    for (int i = b->files.n - 1; i >= 0 && folder; i--) /* names become relative to its folder */
        if (!strncmp(b->file_[i].name, b->model->name, folder) && &b->file_[i] != b->model)
            b->file_[i].name += folder;
    b->files.file = b->file_;
    return 0;
}

/* ---- forms ---- */

struct cursor {
    const char *at, *end;
};

static const char *search(struct cursor in, const char *what, size_t length)
{
    return memmem(in.at, (size_t)(in.end - in.at), what, length);
}

/* Copies the value of a Content-Disposition parameter, name="..." or name=..., to a buffer of NAME
 * bytes; base: without the folders before the file's name. */
static void read_parameter(struct cursor head, const char *name, bool base, char *to)
{
    size_t length = strlen(name);
    *to = 0;
    for (const char *at = search(head, name, length); at;
         at = search((struct cursor){at + 1, head.end}, name, length)) {
        const char *v = at + length, *end;
        if (at[-1] != ' ' && at[-1] != ';') /* the end of a longer name */
            continue;
        bool quoted = v < head.end && *v == '"';
        v += quoted;
        for (end = v; end < head.end && *end != '\r' && *end != (quoted ? '"' : ';'); end++)
            if (base && *end == '/')
                v = end + 1;
        size_t n = (size_t)(end - v) < NAME - 1 ? (size_t)(end - v) : NAME - 1;
        memcpy(to, v, n);
        to[n] = 0;
        return;
    }
}

static bool is_form(struct cursor in)
{
    static const char next[] = "Content-";
    const char *line =
        search((struct cursor){in.at, in.end - in.at > 256 ? in.at + 256 : in.end}, "\r\n", 2);
    return in.end - in.at > 64 && !memcmp(in.at, "--", 2) && line &&
           in.end - line > (ptrdiff_t)sizeof next && !strncasecmp(line + 2, next, sizeof next - 1);
}

/* Reads a part, which begins after its boundary and ends before the next. */
static int read_part(struct td_bundle *b, struct cursor part, struct td_problem *problem)
{
    const char *body = search(part, "\r\n\r\n", 4);
    if (!body)
        return td_problem_set(problem, EINVAL, "the form: a part has no end of its head");
    if (b->files.n == MOST)
        return td_problem_set(problem, EINVAL, "the form: at most %d parts are right", MOST);
    struct td_file *f = &b->file_[b->files.n];
    char *name = b->room_ + (size_t)b->files.n++ * 2 * NAME, *field = name + NAME;
    struct cursor head = {part.at, body};
    read_parameter(head, "filename=", true, name);
    read_parameter(head, "name=", false, field);
    *f = (struct td_file){*name ? name : field, field, body + 4, (size_t)(part.end - body - 4)};
    return 0;
}

static int read_form(struct td_bundle *b, struct cursor in, struct td_problem *problem)
{
    char boundary[264] = "\r\n";
    const char *line = search(in, "\r\n", 2);
    size_t length = (size_t)(line - in.at);
    memcpy(boundary + 2, in.at, length);
    b->file_ = calloc(MOST, sizeof *b->file_);
    int err = b->file_ ? take(b, (size_t)MOST * 2 * NAME, problem)
                       : td_problem_set(problem, ENOMEM, "no memory for the model's files");
    struct cursor rest = {line, in.end};
    while (!err) {
        const char *end = search(rest, boundary, length + 2);
        if (!end)
            return td_problem_set(problem, EINVAL, "the form: its last part has no end");
        err = read_part(b, (struct cursor){rest.at, end}, problem);
        rest.at = end + length + 2;
        if (rest.end - rest.at >= 2 && !memcmp(rest.at, "--", 2))
            break;
    }
    return err ? err : find_model(b, problem);
}

/* ---- zips ---- */

/* The bytes needed for all entries and names; NONE: no .onnx, or a PyTorch archive. */
static int measure(zip_t *zip, size_t size, size_t *bytes, struct td_problem *problem)
{
    bool has_model = false;
    zip_int64_t n = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        has_model = has_model || (name && ends(name, ".onnx"));
        if (name && (ends(name, "models/model.json") || ends(name, "archive_format")))
            return NONE; /* PyTorch's */
    }
    if (!has_model)
        return NONE;
    *bytes = (size_t)n * NAME;
    for (zip_int64_t i = 0; i < n; i++) {
        zip_stat_t stat;
        if (zip_stat_index(zip, (zip_uint64_t)i, 0, &stat) || !(stat.valid & ZIP_STAT_SIZE))
            return td_problem_set(problem, EINVAL, "the zip is damaged");
        if (strlen(stat.name) >= NAME)
            return wrong(problem, "is too long a name", stat.name);
        size_t most = size > (SIZE_MAX >> 8) ? SIZE_MAX >> 1 : INFLATES * size + (1 << 20);
        if (stat.size > most || *bytes > most - stat.size)
            return td_problem_set(problem, EINVAL,
                                  "the zip becomes more than %d times as large as it is; store its "
                                  "files as they are (zip -0)",
                                  INFLATES);
        *bytes += stat.size + 64;
    }
    return 0;
}

static int read_entries(struct td_bundle *b, zip_t *zip, struct td_problem *problem)
{
    zip_int64_t n = zip_get_num_entries(zip, 0);
    char *data = b->room_ + (size_t)n * NAME;
    for (zip_int64_t i = 0; i < n; i++) {
        zip_stat_t stat;
        zip_stat_index(zip, (zip_uint64_t)i, 0, &stat);
        char *name = b->room_ + (size_t)i * NAME;
        strcpy(name, stat.name);
        if (ends(name, "/"))
            continue;
        zip_file_t *file = zip_fopen_index(zip, (zip_uint64_t)i, 0);
        bool whole = file && zip_fread(file, data, stat.size) == (zip_int64_t)stat.size &&
                     !zip_fread(file, data + stat.size, 1); /* reading to the end checks the CRC */
        if (file)
            zip_fclose(file);
        if (!whole)
            return wrong(problem, "is damaged or encrypted", name);
        b->file_[b->files.n++] = (struct td_file){name, "", data, stat.size};
        data += (stat.size + 63) / 64 * 64;
    }
    return find_model(b, problem);
}

static int read_zip(struct td_bundle *b, const void *file, size_t size, struct td_problem *problem)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(file, size, 0, &error);
    zip_t *zip = source ? zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error) : NULL;
    if (source && !zip)
        zip_source_free(source);
    zip_error_fini(&error);
    if (!zip) /* the PyTorch importer will say why */
        return 0;
    size_t bytes = 0;
    int err = measure(zip, size, &bytes, problem);
    if (!err)
        err = take(b, bytes, problem);
    if (!err && !(b->file_ = calloc(MOST, sizeof *b->file_)))
        err = td_problem_set(problem, ENOMEM, "no memory for the model's files");
    err = err == NONE ? 0 : err ? err : read_entries(b, zip, problem);
    zip_discard(zip);
    return err;
}

int td_bundle_open(struct td_bundle *b, const void *file, size_t size, struct td_problem *problem)
{
    struct cursor in = {file, (const char *)file + size};
    *b = (struct td_bundle){0};
    if (is_form(in))
        return read_form(b, in, problem);
    bool zip = size >= 22 && !memcmp(file, "PK\3\4", 4);
    return zip && td_zip_entries(file, size) <= MOST ? read_zip(b, file, size, problem) : 0;
}

void td_bundle_close(struct td_bundle *b)
{
    if (b->taken_)
        td_budget_give(&td_memory, b->taken_);
    free(b->room_);
    free(b->file_);
}
