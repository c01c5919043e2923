/* Parameters, buffers and constants: raw bytes of a storage, seen through sizes and strides. They
 * become constants of the program when the first node wants them, and tied ones, which show the
 * same of the same bytes, become one. */
#include "dispatch/pt2/pt2.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <string.h>

static const char *const folders[2] = {"data/weights/", "data/constants/"};

/* The members of a list's "config", sorted by name. */
static int sort_members(struct td_pt2 *pt2, const cJSON *config, int which)
{
    int n = cJSON_GetArraySize(config), i = 0;
    struct td_pt2_key *key = td_arena_zalloc(pt2->arena, sizeof *key * (size_t)(n + 1));
    if (!key)
        return td_problem_set(pt2->problem, ENOMEM, "no memory for the archive's names");
    for (const cJSON *item = config ? config->child : NULL; item; item = item->next)
        key[i++] = (struct td_pt2_key){.name = item->string, .item = item};
    pt2->stored[which] = key;
    pt2->n_stored[which] = n;
    return td_pt2_sort(key, n, "tensors", pt2->problem);
}

int td_pt2_stored(struct td_pt2 *pt2, struct td_pt2_json json[2])
{
    static const char *const ends[2] = {"_weights_config.json", "_constants_config.json"};
    for (int i = 0; i < 2; i++) {
        struct td_pt2_archive *a = &pt2->archive;
        struct td_pt2_key *entry = td_pt2_entry(a, folders[i], a->model, ends[i]);
        const char *bytes;
        size_t size;
        if (!entry)
            return td_problem_set(pt2->problem, EINVAL,
                                  "the archive has no %s%s%s: PyTorch 2.9 or newer writes what is "
                                  "read here",
                                  folders[i], a->model, ends[i]);
        int err = td_pt2_read(a, entry, &bytes, &size, pt2->problem);
        if (!err)
            err = td_pt2_parse(&json[i], (char *)bytes, size, entry->name, pt2->problem);
        const cJSON *config = td_pt2_get(json[i].root, "config");
        if (!err && !cJSON_IsObject(config))
            err = td_problem_set(pt2->problem, EINVAL, "%s: has no config", entry->name);
        if (err || (err = sort_members(pt2, config, i)))
            return err;
    }
    return 0;
}

/* ---- one tensor ---- */

struct td_pt2_loaded { /* what has been made of an entry's bytes */
    const cJSON *meta;
    int number;
    struct td_pt2_loaded *next;
};

struct layout {
    struct td_tensor tensor;
    int64_t stride[TD_MAX_RANK], offset; /* in elements */
    bool dense;
};

static bool read_number(const cJSON *item, int64_t *v)
{
    return td_pt2_whole(td_pt2_get(item, "as_int"), v) && *v >= 0;
}

static bool read_layout(const cJSON *meta, struct layout *l)
{
    const cJSON *sizes = td_pt2_get(meta, "sizes"), *strides = td_pt2_get(meta, "strides");
    int rank = cJSON_GetArraySize(sizes);
    *l = (struct layout){.dense = true};
    l->tensor.dtype = td_pt2_dtype(td_pt2_get(meta, "dtype"));
    l->tensor.rank = rank;
    if (!l->tensor.dtype || rank > TD_MAX_RANK || cJSON_GetArraySize(strides) != rank ||
        !read_number(td_pt2_get(meta, "storage_offset"), &l->offset))
        return false;
    const cJSON *size = sizes ? sizes->child : NULL, *stride = strides ? strides->child : NULL;
    for (int d = 0; d < rank; d++, size = size->next, stride = stride->next)
        if (!read_number(size, &l->tensor.shape[d]) || !read_number(stride, &l->stride[d]))
            return false;
    int64_t expected = 1;
    for (int d = rank - 1; d >= 0 && td_fits(&l->tensor); d--) {
        l->dense &= l->tensor.shape[d] == 1 || l->stride[d] == expected;
        expected *= l->tensor.shape[d];
    }
    return true;
}

/* Whether the last element lies in so many bytes. */
static bool is_inside(const struct layout *l, size_t bytes)
{
    int64_t last = l->offset;
    bool fits = td_fits(&l->tensor);
    for (int d = 0; d < l->tensor.rank && fits; d++) {
        int64_t more;
        if (l->tensor.shape[d] == 0)
            return true;
        fits = td_size_times(l->tensor.shape[d] - 1, l->stride[d], &more) &&
               td_size_plus(last, more, &last);
    }
    return fits && last < INT64_MAX / 16 &&
           (size_t)(last + 1) * td_dtype_size(l->tensor.dtype) <= bytes;
}

/* Copies the elements in order, a row of the last dimension at a time. */
static void gather(const struct layout *l, const char *from, char *to)
{
    size_t size = td_dtype_size(l->tensor.dtype);
    int rank = l->tensor.rank;
    int64_t n = td_numel(&l->tensor), at[TD_MAX_RANK] = {0};
    int64_t row = rank ? l->tensor.shape[rank - 1] : 1, step = rank ? l->stride[rank - 1] : 0;
    for (int64_t i = 0; i < n; i += row) {
        int64_t begin = l->offset;
        for (int d = 0; d < rank - 1; d++)
            begin += at[d] * l->stride[d];
        for (int64_t k = 0; k < row; k++, to += size)
            memcpy(to, from + (size_t)(begin + k * step) * size, size);
        for (int d = rank - 2; d >= 0 && ++at[d] == l->tensor.shape[d]; d--)
            at[d] = 0;
    }
}

static int make_constant(struct td_pt2 *pt2, struct layout *l, const char *bytes, int number)
{
    struct td_arena *room = NULL;
    l->tensor.data = (char *)bytes + (size_t)l->offset * td_dtype_size(l->tensor.dtype);
    if (!l->dense && td_numel(&l->tensor)) {
        room = td_arena_create();
        l->tensor.data = room ? td_arena_alloc(room, td_nbytes(&l->tensor)) : NULL;
        if (l->tensor.data)
            gather(l, bytes, l->tensor.data);
    }
    int err = -ENOMEM;
    if (l->tensor.data)
        err = td_program_constant(pt2->model, number, &l->tensor);
    td_arena_destroy(room);
    return err;
}

static bool is_same(const cJSON *a, const cJSON *b)
{
    static const char *const members[] = {"dtype", "sizes", "strides", "storage_offset"};
    bool same = true;
    for (int i = 0; i < 4 && same; i++)
        same = cJSON_Compare(td_pt2_get(a, members[i]), td_pt2_get(b, members[i]), 1);
    return same;
}

/* Reads the entry, and makes a constant of it. */
static int load_entry(struct td_pt2 *pt2, struct td_pt2_value *value, struct td_pt2_key *entry,
                      const cJSON *meta)
{
    struct layout layout;
    const char *bytes;
    size_t size;
    if (!read_layout(meta, &layout))
        return td_problem_set(pt2->problem, EINVAL,
                              "the tensor '%.80s' has a type, sizes or strides that there are none "
                              "of here",
                              value->stored->string);
    int err = td_pt2_read(&pt2->archive, entry, &bytes, &size, pt2->problem);
    if (err)
        return err;
    if (!is_inside(&layout, size))
        return td_problem_set(pt2->problem, EINVAL,
                              "the tensor '%.80s' reaches beyond the %zu bytes of %.80s",
                              value->stored->string, size, entry->name);
    struct td_pt2_loaded *loaded = td_arena_zalloc(pt2->arena, sizeof *loaded);
    if (!loaded)
        return -ENOMEM;
    *loaded = (struct td_pt2_loaded){meta, td_program_value(pt2->model), entry->loaded};
    err = make_constant(pt2, &layout, bytes, loaded->number);
    if (!err) {
        entry->loaded = loaded;
        value->number = loaded->number;
    }
    return err;
}

int td_pt2_load(struct td_pt2 *pt2, struct td_pt2_value *value)
{
    const cJSON *stored = value->stored, *meta = td_pt2_get(stored, "tensor_meta");
    const char *path = td_pt2_text(stored, "path_name");
    if (!path || !cJSON_IsObject(meta) || cJSON_IsTrue(td_pt2_get(stored, "use_pickle")))
        return td_problem_set(pt2->problem, EINVAL,
                              "'%.80s' is pickled; only plain tensors are read", stored->string);
    struct td_pt2_key *entry = td_pt2_entry(&pt2->archive, value->folder, path, "");
    if (!entry)
        return td_problem_set(pt2->problem, EINVAL, "the archive has no %s%.80s for '%.80s'",
                              value->folder, path, stored->string);
    for (const struct td_pt2_loaded *l = entry->loaded; l; l = l->next)
        if (is_same(l->meta, meta)) {
            value->number = l->number;
            return 0;
        }
    return load_entry(pt2, value, entry, meta);
}
