/* The zip that a .pt2 is: PyTorch stores its entries as they are, so nothing is inflated, and all
 * that can be read of it is as large as the file. The pickled entries are never looked at. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define ENTRY_BYTES 512 /* what libzip keeps of an entry */
#define READS 16        /* times that the file's size may be read: of entries with several views */

/* ---- sorted names ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct td_pt2_key *)a)->name, ((const struct td_pt2_key *)b)->name);
}

int td_pt2_sort(struct td_pt2_key *key, int n, const char *what, struct td_problem *problem)
{
    if (n)
        qsort(key, (size_t)n, sizeof *key, compare);
    for (int i = 1; i < n; i++)
        if (!strcmp(key[i - 1].name, key[i].name))
            return td_problem_set(problem, EINVAL, "the archive has two %s called '%.80s'", what,
                                  key[i].name);
    return 0;
}

struct td_pt2_key *td_pt2_find(struct td_pt2_key *key, int n, const char *name)
{
    struct td_pt2_key wanted = {.name = name};
    return n && name ? bsearch(&wanted, key, (size_t)n, sizeof *key, compare) : NULL;
}

/* ---- opening ---- */

static uint64_t little(const unsigned char *at, int bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | at[bytes];
    return v;
}

/* By the directory at its end. */
uint64_t td_zip_entries(const void *bytes, size_t size)
{
    const unsigned char *file = bytes;
    size_t least = size > 65535 + 22 ? size - 65535 - 22 : 0;
    size_t at = size < 22 ? 0 : size - 22;
    while (at > least && memcmp(file + at, "PK\5\6", 4))
        at--;
    if (size < 22 || memcmp(file + at, "PK\5\6", 4))
        return 0;
    uint64_t n = little(file + at + 10, 2);
    if (n < 0xffff || at < 20 || memcmp(file + at - 20, "PK\6\7", 4))
        return n;
    uint64_t wide = little(file + at - 20 + 8, 8);
    if (wide > size - 56 || size < 56)
        return 0;
    return little(file + wide + 32, 8);
}

static int damaged(struct td_problem *problem, const char *why)
{
    return td_problem_set(problem, EINVAL, "the archive is damaged: %.200s", why);
}

static int open_zip(struct td_pt2_archive *a, const void *file, size_t size,
                    struct td_problem *problem)
{
    uint64_t n = td_zip_entries(file, size);
    if (!n || n > size / 46 || n > INT_MAX / 2)
        return damaged(problem, "its directory is not at its end");
    a->taken = (size_t)n * ENTRY_BYTES;
    if (td_budget_take(&td_memory, a->taken)) {
        a->taken = 0;
        return td_problem_set(problem, ENOMEM, "no memory for the archive's directory");
    }
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(file, size, 0, &error);
    if (source && !(a->zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error)))
        zip_source_free(source);
    int err = a->zip ? 0 : damaged(problem, zip_error_strerror(&error));
    zip_error_fini(&error);
    return err;
}

/* "dir/models/NAME.json": where NAME begins, 0 when it is no such name. */
static size_t model_at(const char *name, size_t length)
{
    const char *slash = strchr(name, '/');
    size_t prefix = !strncmp(name, "models/", 7) || !slash ? 0 : (size_t)(slash + 1 - name);
    size_t at = prefix + 7;
    bool is = length > at + 5 && !strncmp(name + prefix, "models/", 7) &&
              !strcmp(name + length - 5, ".json") && !strchr(name + at, '/');
    return is ? at : 0;
}

/* An archive may hold several models; "model" is the one that torch.export.save writes. */
static int find_model(struct td_pt2_archive *a, struct td_problem *problem)
{
    int found = 0;
    bool old = false;
    for (int i = 0; i < a->n_entries; i++) {
        const char *name = a->entry[i].name, *last = strrchr(name, '/');
        size_t length = strlen(name), at = model_at(name, length);
        old |= !strcmp(last ? last + 1 : name, "serialized_exported_program.json");
        if (!at || length - at - 5 >= sizeof a->model)
            continue;
        bool usual = length - at - 5 == 5 && !memcmp(name + at, "model", 5);
        if (found++ && !usual)
            continue;
        a->root = name;
        a->prefix = (int)at - 7;
        memcpy(a->model, name + at, length - at - 5);
        a->model[length - at - 5] = 0;
        if (usual)
            return 0;
    }
    if (found == 1)
        return 0;
    if (found)
        return td_problem_set(problem, EINVAL,
                              "the archive has %d models and none is called 'model'", found);
    return td_problem_set(problem, EINVAL, "%s",
                          old ? "the archive is of an older form; PyTorch 2.9 or newer writes the "
                                "one that is read: torch.export.save(torch.export.load(file), file)"
                              : "the archive has no models/model.json: it is not what "
                                "torch.export.save writes");
}

int td_pt2_open(struct td_pt2_archive *a, const void *file, size_t size, struct td_arena *memory,
                struct td_problem *problem)
{
    int err = open_zip(a, file, size, problem);
    if (err)
        return err;
    int64_t n = zip_get_num_entries(a->zip, 0);
    a->left = size > SIZE_MAX / READS ? SIZE_MAX : size * READS;
    a->entry = td_arena_zalloc(memory, sizeof *a->entry * (size_t)(n + 1));
    a->arena = td_arena_create();
    if (!a->entry || !a->arena)
        return td_problem_set(problem, ENOMEM, "no memory for the archive's directory");
    for (int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(a->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        if (name)
            a->entry[a->n_entries++] = (struct td_pt2_key){.name = name, .at = (int)i};
    }
    err = td_pt2_sort(a->entry, a->n_entries, "entries", problem);
    if (err || (err = find_model(a, problem)))
        return err;
    struct td_pt2_key *order = td_pt2_entry(a, "", "byteorder", "");
    const char *bytes;
    size_t length;
    if (!order || (err = td_pt2_read(a, order, &bytes, &length, problem)))
        return err;
    return !strncmp(bytes, "little", 6)
               ? 0
               : td_problem_set(problem, EINVAL, "the archive's numbers are not little-endian");
}

void td_pt2_close(struct td_pt2_archive *a)
{
    if (a->zip)
        zip_discard(a->zip);
    if (a->taken)
        td_budget_give(&td_memory, a->taken);
    td_arena_destroy(a->arena);
}

/* ---- reading ---- */

struct td_pt2_key *td_pt2_entry(struct td_pt2_archive *a, const char *folder, const char *name,
                                const char *end)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%.*s%s%s%s", a->prefix, a->root, folder, name, end);
    return n < (int)sizeof path ? td_pt2_find(a->entry, a->n_entries, path) : NULL;
}

static int check_entry(struct td_pt2_archive *a, const struct td_pt2_key *entry,
                       const zip_stat_t *stat, struct td_problem *problem)
{
    if (!(stat->valid & ZIP_STAT_SIZE) || !(stat->valid & ZIP_STAT_COMP_METHOD))
        return damaged(problem, "an entry has no size");
    if (stat->comp_method != ZIP_CM_STORE || stat->encryption_method != ZIP_EM_NONE)
        return td_problem_set(problem, EINVAL,
                              "the archive's '%.80s' is compressed or encrypted; torch.export.save "
                              "stores entries as they are",
                              entry->name);
    if (stat->size > a->left)
        return damaged(problem, "its entries are larger than it is");
    a->left -= stat->size;
    return 0;
}

int td_pt2_read(struct td_pt2_archive *a, const struct td_pt2_key *entry, const char **bytes,
                size_t *size, struct td_problem *problem)
{
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(a->zip, (zip_uint64_t)entry->at, 0, &stat))
        return damaged(problem, zip_strerror(a->zip));
    *size = (size_t)stat.size;
    *bytes = a->bytes;
    if (a->kept == entry)
        return 0;
    a->kept = NULL;
    int err = check_entry(a, entry, &stat, problem);
    if (err)
        return err;
    a->arena = td_arena_reset(a->arena);
    char *room = a->arena ? td_arena_alloc(a->arena, *size + 1) : NULL;
    if (!room)
        return td_problem_set(problem, ENOMEM, "no memory to read '%.80s'", entry->name);
    zip_file_t *file = zip_fopen_index(a->zip, (zip_uint64_t)entry->at, 0);
    bool whole = file && zip_fread(file, room, *size) == (zip_int64_t)*size &&
                 !zip_fread(file, room + *size, 1); /* at the end their sum is judged */
    if (file)
        zip_fclose(file);
    if (!whole)
        return td_problem_set(problem, EINVAL, "the archive is damaged at '%.80s'", entry->name);
    room[*size] = 0;
    *bytes = a->bytes = room;
    a->kept = entry;
    return 0;
}
