/* Reads ONNX files. */
#include "dispatch/model/program.h"

#include <errno.h>

int td_import_onnx(struct td_model *model, const void *file, size_t size,
                   struct td_problem *problem)
{
    (void)model, (void)file, (void)size;
    return td_problem_set(problem, EINVAL, "files of this kind cannot be read yet");
}
