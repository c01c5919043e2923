/* Number text, by libraries that are made for it (numbers.cc). Internal to api/. */
#ifndef TD_API_NUMBERS_H
#define TD_API_NUMBERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_NUMBER_ROOM 32 /* bytes that any printed number fits in */

/* Parse the number at text, correctly rounded. Returns where it ends, NULL when there is none or it
 * is not JSON's form. A value beyond the type becomes an infinity, as IEEE 754 rounds it. */
const char *td_parse_f32(const char *text, const char *end, float *value);
const char *td_parse_f64(const char *text, const char *end, double *value);

/* Print the shortest text that reads back to the same bits, as valid JSON; not finite: the
 * strings "NaN", "Infinity", "-Infinity". Return where it ends; no 0 is written. */
char *td_print_f32(float value, char *out);
char *td_print_f64(double value, char *out);
char *td_print_i64(int64_t value, char *out);
char *td_print_u64(uint64_t value, char *out);

#ifdef __cplusplus
}
#endif

#endif
