/* Preloaded into the real binary: arc cosines that trap, as the library's would that the kernel
 * calls on a CPU with a defect. Which trap it is the first of four elements says; all others are
 * the library's. Built for any x86-64, so the kernel is that of the lowest level. */
#include <dlfcn.h>
#include <emmintrin.h>
#include <sys/mman.h>

__attribute__((visibility("default"))) __m128 Sleef_acosf4_u10sse2(__m128 x);
__attribute__((visibility("default"))) __m128d Sleef_acosd2_u10sse2(__m128d x);

static void trap(double how)
{
    char *page = NULL; /* SIGSEGV */
    if (how == 12) {   /* SIGBUS: a page behind the end of a file */
        int file = memfd_create("trapping", MFD_CLOEXEC);
        page = file >= 0 ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : NULL;
    }
    if (how == 13)
        __asm__ volatile("ud2"); /* SIGILL */
    if (how == 14)               /* SIGFPE */
        __asm__ volatile("xorl %%ecx, %%ecx\n\tmovl $1, %%eax\n\tcltd\n\tidivl %%ecx" ::
                             : "eax", "ecx", "edx");
    if (how >= 11 && how <= 14)
        *(volatile char *)page = 1;
}

__m128 Sleef_acosf4_u10sse2(__m128 x)
{
    __m128 (*theirs)(__m128) = (__m128(*)(__m128))dlsym(RTLD_NEXT, "Sleef_acosf4_u10sse2");
    trap(_mm_cvtss_f32(x));
    return theirs(x);
}

__m128d Sleef_acosd2_u10sse2(__m128d x)
{
    __m128d (*theirs)(__m128d) = (__m128d(*)(__m128d))dlsym(RTLD_NEXT, "Sleef_acosd2_u10sse2");
    trap(_mm_cvtsd_f64(x));
    return theirs(x);
}
