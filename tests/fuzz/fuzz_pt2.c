/* PyTorch's archives. A zip is unpacked, one of its files changed, the JSON ones as texts, and
 * packed again, with its sums right. */
#include "tests/fuzz/model.h"
#include "tests/fuzz/mutate.h"

#include <zip.h>

#define MOST_FILE (1 << 18)

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_file(data, size);
    return 0;
}

static uint8_t *read_member(zip_t *zip, zip_uint64_t i, size_t *size)
{
    zip_stat_t stat;
    zip_file_t *file = zip_stat_index(zip, i, 0, &stat) || stat.size > MOST_FILE
                           ? NULL
                           : zip_fopen_index(zip, i, 0);
    uint8_t *data = file ? malloc(MOST_FILE) : NULL;
    zip_int64_t n = file ? zip_fread(file, data, stat.size) : -1;
    if (file)
        zip_fclose(file);
    if (n < 0) {
        free(data);
        return NULL;
    }
    *size = (size_t)n;
    return data;
}

/* Nothing of it is compressed, since that would be the work of most executions. */
static size_t pack(zip_source_t *source, zip_t *zip, uint8_t *data, size_t size, size_t most)
{
    zip_source_keep(source);
    size_t n = size;
    if (zip_close(zip)) {
        zip_discard(zip);
    } else if (!zip_source_open(source)) {
        zip_source_seek(source, 0, SEEK_END);
        zip_int64_t length = zip_source_tell(source);
        zip_source_seek(source, 0, SEEK_SET);
        if (length > 0 && (size_t)length <= most)
            n = (size_t)zip_source_read(source, data, (zip_uint64_t)length);
        zip_source_close(source);
    }
    zip_source_free(source);
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    void *copy = malloc(size ? size : 1);
    zip_source_t *source = zip_source_buffer_create(memcpy(copy, data, size), size, 1, NULL);
    zip_t *zip = source ? zip_open_from_source(source, 0, NULL) : NULL;
    if (!zip || seed % 16 == 0) {
        if (zip)
            zip_discard(zip);
        else
            zip_source_free(source);
        return LLVMFuzzerMutate(data, size, most);
    }
    unsigned state = seed;
    zip_int64_t n = zip_get_num_entries(zip, 0);
    zip_uint64_t chosen = 0;
    for (zip_int64_t i = 0, seen = 0; i < n; i++) { /* the JSON ones six times as likely */
        const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
        int weight = name && strstr(name, ".json") ? 6 : 1;
        seen += weight;
        if ((int)chance(&state, (unsigned)seen) < weight)
            chosen = (zip_uint64_t)i;
    }
    size_t length = 0;
    uint8_t *member = n > 0 ? read_member(zip, chosen, &length) : NULL;
    bool text = member && length && (*member == '{' || *member == '[');
    for (unsigned i = 0; member && i <= chance(&state, 3); i++)
        length = text ? mutate_text(member, length, MOST_FILE, &state, NULL, 0)
                      : LLVMFuzzerMutate(member, length, MOST_FILE);
    length += !length; /* libzip would not free what has no bytes */
    zip_source_t *in = member ? zip_source_buffer(zip, member, length, 1) : NULL;
    if (in && zip_file_replace(zip, chosen, in, 0))
        zip_source_free(in);
    else if (in)
        zip_set_file_compression(zip, chosen, ZIP_CM_STORE, 0);
    return pack(source, zip, data, size, most);
}
