/* Loads a model from its file: selects the importer, folds constants and checks the program. */
#include "dispatch/model/bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The importer of a file: a zip begins with PK, JSON with a brace. Everything else goes to the ONNX
 * importer, which refuses what is not ONNX. */
static td_importer *importer_of(const char *file, size_t size, const char **format)
{
    size_t at = 0;
    while (at < size && strchr(" \t\r\n", file[at]) && file[at])
        at++;
    bool zip = size >= 4 && !memcmp(file, "PK\3\4", 4), brace = at < size && file[at] == '{';
    *format = zip ? "pt2" : brace ? "json" : "onnx";
    return zip ? td_import_pt2 : brace ? td_import_expr : td_import_onnx;
}

/* An empty model; NULL: *err is -ENOMEM, or what room returned. */
static struct td_model *create(struct td_weight_room *room, int *err)
{
    struct td_model *m = calloc(1, sizeof *m);
    *err = -ENOMEM;
    if (!m)
        return NULL;
    m->refs = 1;
    m->room = room;
    if (!(*err = td_program_take(m, sizeof *m))) {
        m->arena = td_program_arena(m);
        if (m->arena) {
            pthread_mutex_init(&m->lock_, NULL);
            return m;
        }
        *err = m->short_ ? m->short_ : -ENOMEM;
        td_program_give(m, sizeof *m);
    }
    free(m);
    return NULL;
}

int td_model_load(struct td_model **model, const void *file, size_t size, const char *beside,
                  struct td_weight_room *room, struct td_problem *problem)
{
    int err;
    struct td_model *m = create(room, &err);
    *model = NULL;
    if (!m)
        return td_problem_set(problem, -err, "no memory for the model");
    *problem->text = 0;
    struct td_bundle bundle;
    err = td_bundle_open(&bundle, file, size, problem);
    if (bundle.model && !err) {
        m->files = &bundle.files;
        file = bundle.model->data;
        size = bundle.model->size;
    }
    m->beside = beside;
    td_importer *import = importer_of(file, size, &m->format);
    err = err ? err : import(m, file, size, problem);
    m->beside = NULL;
    m->files = NULL;
    td_bundle_close(&bundle);
    err = err ? err : td_program_close(m, problem); /* checks uses, too */
    err = err ? err : td_program_fold(m, problem);
    if (!err && m->n_folded) /* else nothing has changed */
        err = td_program_close(m, problem);
    err = err ? err : td_model_judge(m, problem);
    if (!err && import != td_import_pt2) /* whose importer finds the states: buffers */
        err = td_model_pair_ports(m);
    if (!err && import == td_import_expr)
        td_expr_find_types(m);
    if (err == -ENOMEM && m->short_) /* callees may have returned -ENOMEM for it */
        err = m->short_;
    if (err && !*problem->text)
        td_problem_set(problem, -err, "no memory for the model's constants");
    if (err)
        td_model_unref(&m);
    *model = m;
    return err;
}
