/* A parallel region as compilers before GCC 4.9 wrote it, in a library of its own: the way oneDNN's
 * wheel calls the runtime, through the dynamic linker. */
void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads);
void GOMP_parallel_end(void);
__attribute__((visibility("default"))) void td_test_old_region(void (*fn)(void *), void *data,
                                                               unsigned threads);

void td_test_old_region(void (*fn)(void *), void *data, unsigned threads)
{
    GOMP_parallel_start(fn, data, threads);
    fn(data);
    GOMP_parallel_end();
}
