/* ONNX files. They are changed as protobuf messages: a field of any message in any depth is
 * changed, left out or said twice, and the lengths around it are made right again. */
#include "tests/fuzz/model.h"
#include "tests/fuzz/mutate.h"

#define MOST_FIELDS 64
#define DEPTH 8

struct field {
    size_t begin, value, end; /* value: behind the key and, of bytes, the length */
    unsigned wire;
};

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

static bool read_varint(const uint8_t *data, size_t size, size_t *at, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; *at < size && shift < 64; shift += 7) {
        uint8_t c = data[(*at)++];
        *v |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return true;
    }
    return false;
}

static size_t write_varint(uint8_t *to, uint64_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7)
        to[n++] = (uint8_t)(v | 128);
    to[n++] = (uint8_t)v;
    return n;
}

/* The fields of a message, the last ones of many; 0: it is none. */
static unsigned read_fields(const uint8_t *data, size_t size, struct field *field)
{
    unsigned n = 0;
    for (size_t at = 0; at < size; n++) {
        struct field *f = &field[n % MOST_FIELDS];
        uint64_t key, length;
        f->begin = at;
        if (!read_varint(data, size, &at, &key) || !(key >> 3) || key >> 3 > 100)
            return 0;
        f->value = at;
        f->wire = key & 7;
        if (f->wire == 0 && !read_varint(data, size, &at, &length))
            return 0;
        if (f->wire == 2) {
            if (!read_varint(data, size, &at, &length) || length > size - at)
                return 0;
            f->value = at;
            at += length;
        }
        at += f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
        if (at > size || f->wire == 3 || f->wire == 4 || f->wire > 5)
            return 0;
        f->end = at;
    }
    return n < MOST_FIELDS ? n : MOST_FIELDS;
}

static size_t mutate_message(uint8_t *data, size_t size, size_t most, unsigned *state, int depth)
{
    static const uint64_t odd[] = {
        0,         1,         2,         3,         7,         255,        65536,
        INT32_MAX, 1UL << 31, 1UL << 62, INT64_MAX, 1UL << 63, UINT64_MAX, UINT64_MAX - 1};
    struct field field[MOST_FIELDS];
    unsigned n = read_fields(data, size, field);
    if (!n)
        return LLVMFuzzerMutate(data, size, most);
    struct field f = field[chance(state, n)], other = field[chance(state, n)];
    size_t length = f.end - f.value, room = most - size;
    uint8_t number[10];
    unsigned how = chance(state, 12);
    if (how == 0)
        return splice(data, size, most, f.begin, f.end - f.begin, "", 0);
    if (how == 1 && other.end - other.begin <= room) { /* said again, elsewhere */
        uint8_t *copy = malloc(other.end - other.begin + 1);
        memcpy(copy, data + other.begin, other.end - other.begin);
        size = splice(data, size, most, f.begin, how & 2 ? f.end - f.begin : 0, copy,
                      other.end - other.begin);
        free(copy);
        return size;
    }
    if (f.wire == 0)
        return splice(data, size, most, f.value, length, number,
                      write_varint(number, how < 8 ? odd[chance(state, sizeof odd / sizeof *odd)]
                                                   : chance(state, 30)));
    if (f.wire != 2) {
        LLVMFuzzerMutate(data + f.value, length, length);
        return size;
    }
    uint8_t *inner = malloc(length + room + 1);
    memcpy(inner, data + f.value, length);
    size_t now = room < 8 ? length
                 : depth < DEPTH
                     ? mutate_message(inner, length, length + room - 8, state, depth + 1)
                     : LLVMFuzzerMutate(inner, length, length + room - 8);
    uint8_t *key = data + f.begin;
    size_t key_size = 1;
    while (key[key_size - 1] & 128)
        key_size++;
    size = splice(data, size, most, f.value, length, inner, now);
    size = splice(data, size, most, f.begin + key_size, f.value - f.begin - key_size, number,
                  write_varint(number, now));
    free(inner);
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return size ? mutate_message(data, size, most, &seed, 0) : LLVMFuzzerMutate(data, size, most);
}
