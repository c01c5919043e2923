/* Tensors whose elements lie in a file beside the model's: what torch.onnx.export writes of all
 * that is not small. Only a file of the same directory is read, or of one under it, and through no
 * link that leads out; over HTTP there is no such directory. */
#include "dispatch/onnx/file.h"
#include "pools/pools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place { /* where the elements lie */
    const char *file;
    uint64_t offset;
    size_t size;
};

static const char *value_of(const TdOnnx__Tensor *from, const char *key)
{
    for (size_t i = 0; i < from->n_external_data; i++)
        if (from->external_data[i]->key && !strcmp(from->external_data[i]->key, key))
            return from->external_data[i]->value ? from->external_data[i]->value : "";
    return NULL;
}

/* A whole number, or fallback where there is none. */
static int read_number(struct td_onnx_reader *r, const char *name, const char *key,
                       const char *text, uint64_t fallback, uint64_t *value)
{
    char *end = NULL;
    *value = fallback;
    if (!text)
        return 0;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno
               ? 0
               : td_problem_set(r->problem, EINVAL,
                                "tensor '%.100s': its %s '%.40s' is no number of bytes", name, key,
                                text);
}

static int read_place(struct td_onnx_reader *r, const TdOnnx__Tensor *from, const char *name,
                      size_t bytes, struct place *place)
{
    uint64_t length;
    place->file = value_of(from, "location");
    place->size = bytes;
    if (!place->file || !*place->file)
        return td_problem_set(r->problem, EINVAL,
                              "tensor '%.100s': it says of no file that its data lie in", name);
    int err = read_number(r, name, "offset", value_of(from, "offset"), 0, &place->offset);
    if (!err)
        err = read_number(r, name, "length", value_of(from, "length"), bytes, &length);
    if (!err && length != bytes)
        err = td_problem_set(r->problem, EINVAL,
                             "tensor '%.100s': its data have %llu bytes, but %zu are right", name,
                             (unsigned long long)length, bytes);
    return err;
}

/* Opened, or -1 with the sentence. */
static int open_file(struct td_onnx_reader *r, const char *name, const char *file)
{
    const char *beside = r->model->beside;
    if (!beside)
        return td_problem_set(
            r->problem, EINVAL,
            "tensor '%.100s': its data lie in the file '%.100s' (external data); "
            "send both, as a form (curl -X PUT -F model=@m.onnx -F data=@m.onnx.data) or a zip, or "
            "one file, as torch.onnx.export(..., external_data=False) writes it",
            name, file);
    char path[4096], *in = realpath(beside, NULL);
    int n = snprintf(path, sizeof path, "%s/%s", beside, file);
    char *real = in && n < (int)sizeof path ? realpath(path, NULL) : NULL;
    struct stat st;
    bool inside =
        real && !strncmp(real, in, strlen(in)) && (real[strlen(in)] == '/' || !strcmp(in, "/"));
    int fd = real && inside ? open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    int why = errno;
    if (inside && !stat(real, &st) && S_ISDIR(st.st_mode)) {
        td_problem_set(r->problem, EINVAL,
                       "tensor '%.100s': its data lie in '%.200s', which is a directory", name,
                       file);
        if (fd >= 0)
            close(fd);
        fd = -1;
    } else if (fd < 0 && real && !inside)
        td_problem_set(r->problem, EINVAL,
                       "tensor '%.100s': '%.200s' is not in the model's directory", name, file);
    else if (fd < 0)
        td_problem_set(r->problem, EINVAL,
                       "tensor '%.100s': its data lie in '%.200s', which cannot be read: %s", name,
                       file, strerror(why));
    free(in);
    free(real);
    return fd < 0 ? -EINVAL : fd;
}

/* Of what has come with the model: names in a form, or in a zip from the model's directory on. */
static const struct td_file *find_file(const struct td_files *files, const char *name)
{
    for (int i = 0; i < files->n; i++)
        if (!strcmp(files->file[i].name, name) || !strcmp(files->file[i].field, name))
            return &files->file[i];
    return NULL;
}

/* A copy of bytes that have come with the model. */
static int copy_of(struct td_onnx_reader *r, const char *name, const struct place *place,
                   void **data)
{
    const struct td_file *f = find_file(r->model->files, place->file);
    if (!f)
        return td_problem_set(r->problem, EINVAL,
                              "tensor '%.100s': its data lie in '%.200s', which has not been sent",
                              name, place->file);
    if (place->offset > f->size || place->size > f->size - place->offset)
        return td_problem_set(r->problem, EINVAL,
                              "tensor '%.100s': '%.200s' ends before its data do", name,
                              place->file);
    if (td_budget_take(&td_memory, place->size))
        return td_problem_set(r->problem, ENOMEM, "no memory for the model");
    *data = malloc(place->size + 1);
    if (!*data) {
        td_budget_give(&td_memory, place->size);
        return td_problem_set(r->problem, ENOMEM, "no memory for the model");
    }
    memcpy(*data, (const char *)f->data + place->offset, place->size);
    return 0;
}

void td_onnx_free_external(void *data, size_t bytes)
{
    if (data)
        td_budget_give(&td_memory, bytes);
    free(data);
}

int td_onnx_external(struct td_onnx_reader *r, const TdOnnx__Tensor *from, const char *name,
                     size_t bytes, void **data)
{
    struct place place;
    int err = read_place(r, from, name, bytes, &place);
    *data = NULL;
    if (!err && r->model->files)
        return copy_of(r, name, &place, data);
    int fd = err ? -1 : open_file(r, name, place.file);
    *data = NULL;
    if (err || fd < 0)
        return err ? err : -EINVAL;
    size_t done = 0;
    err = td_budget_take(&td_memory, bytes);
    if (!err && !(*data = malloc(bytes + 1)))
        td_budget_give(&td_memory, bytes);
    while (*data && done < bytes) {
        ssize_t n = pread(fd, (char *)*data + done, bytes - done, (off_t)(place.offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    close(fd);
    if (!*data)
        return td_problem_set(r->problem, ENOMEM, "no memory for the model");
    if (done == bytes)
        return 0;
    td_onnx_free_external(*data, bytes);
    *data = NULL;
    return td_problem_set(r->problem, EINVAL, "tensor '%.100s': '%.200s' ends before its data do",
                          name, place.file);
}
