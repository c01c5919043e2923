/* Models from a directory, as it is when the server starts: NAME.onnx and NAME.pt2, or
 * NAME/VERSION/model.onnx and model.pt2, as other servers have them; and beside each, if it is
 * there, NAME.settings.json or model.settings.json. */
#include "api/files/files.h"
#include "api/models/models.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const endings[] = {".onnx", ".pt2"};
#define ENDINGS (sizeof endings / sizeof *endings)

struct walk {
    struct td_models *models;
    const char *directory;
    void (*say)(const char *sentence);
    int failed;
};

/* ---- one model ---- */

static void tell(struct walk *walk, const char *path, const char *what)
{
    char text[1200];
    snprintf(text, sizeof text, "%.300s: %.800s", path, what);
    walk->say(text);
}

static void fail(struct walk *walk, const char *path, const char *why)
{
    walk->failed++;
    tell(walk, path, why);
}

static bool is_taken(struct td_models *models, const char *name)
{
    struct td_served *served = td_models_find(models, name);
    bool taken = served != NULL;
    td_served_unref(&served);
    return taken;
}

static int read_model(struct walk *walk, const char *name, const char *path, size_t *size,
                      struct td_problem *problem)
{
    struct td_arena *arena = td_arena_create();
    if (!arena)
        return td_problem_set(problem, ENOMEM, "no memory for the file");
    void *bytes = td_read_file(arena, path, size, problem);
    char *beside = td_arena_strdup(arena, path, (size_t)(strrchr(path, '/') - path));
    const struct td_model_file file = {bytes, *size, arena, beside};
    int status = !bytes    ? -EINVAL
                 : !beside ? td_problem_set(problem, ENOMEM, "no memory for the file")
                           : td_models_load(walk->models, NULL, name, &file, NULL, problem);
    td_arena_destroy(arena);
    return status;
}

/* The settings beside the model's file, if there are any. */
static int read_settings(struct walk *walk, const char *name, const char *path,
                         struct td_problem *problem)
{
    char file[4200];
    size_t size = 0;
    struct td_problem why;
    snprintf(file, sizeof file, "%.*s.settings.json", (int)(strrchr(path, '.') - path), path);
    if (access(file, F_OK))
        return 0;
    struct td_arena *arena = td_arena_create();
    void *text = arena ? td_read_file(arena, file, &size, &why) : NULL;
    if (!arena)
        td_problem_set(&why, ENOMEM, "no memory for the file");
    int err = text ? td_models_set_by_file(walk->models, name, text, size, &why) : -EINVAL;
    td_arena_destroy(arena);
    return err ? td_problem_set(problem, -err, "%.200s: %.300s", strrchr(file, '/') + 1, why.text)
               : 0;
}

static void load(struct walk *walk, const char *name, const char *path)
{
    struct td_problem problem;
    size_t size = 0;
    char text[800];
    if (!td_models_name_is_right(name)) {
        fail(walk, path, "not loaded: a model's name is letters, digits and . _ -, and not op.*");
        return;
    }
    if (is_taken(walk->models, name)) {
        fail(walk, path, "not loaded: another file has given a model this name");
        return;
    }
    int64_t begin = td_now_ns();
    int status = read_model(walk, name, path, &size, &problem);
    if (status >= 0 && (status = read_settings(walk, name, path, &problem)))
        td_models_remove(walk->models, name); /* its answers may depend on the settings */
    if (status < 0) {
        snprintf(text, sizeof text, "not loaded: %s", problem.text);
        fail(walk, path, text);
        return;
    }
    snprintf(text, sizeof text, "model %s, %zu bytes, loaded in %.1f ms", name, size,
             (double)(td_now_ns() - begin) * 1e-6);
    tell(walk, path, text);
}

/* ---- names ---- */

/* The length of NAME in NAME.onnx or NAME.pt2; 0: the entry is called otherwise. */
static size_t name_length(const char *entry)
{
    size_t all = strlen(entry);
    for (size_t i = 0; i < ENDINGS; i++) {
        size_t end = strlen(endings[i]);
        if (all > end && !strcmp(entry + all - end, endings[i]))
            return all - end;
    }
    return 0;
}

/* Writes the path of model.onnx or model.pt2 in the folder to file; false: it has neither. */
static bool find_model(const char *folder, char file[4096])
{
    for (size_t i = 0; i < ENDINGS; i++) {
        int n = snprintf(file, 4096, "%s/model%s", folder, endings[i]);
        if (n < 4096 && !access(file, F_OK))
            return true;
    }
    return false;
}

/* The highest version among the directory's entries, as it is spelt; false: there is none. */
static bool highest_version(const char *path, char version[256])
{
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strspn(e->d_name, "0123456789");
        if (!n || e->d_name[n] || n > 18)
            continue;
        if (!found || strtoll(e->d_name, NULL, 10) > strtoll(version, NULL, 10))
            snprintf(version, 256, "%s", e->d_name);
        found = true;
    }
    if (dir)
        closedir(dir);
    return found;
}

static void load_versions(struct walk *walk, const char *name, const char *path)
{
    char version[256], folder[4096], file[4096];
    if (!highest_version(path, version)) {
        if (name_length(name) || find_model(path, file))
            fail(walk, path, "not loaded: a directory needs one a version, as NAME/1/model.onnx");
        return; /* else it is something else */
    }
    int n = snprintf(folder, sizeof folder, "%s/%s", path, version);
    if (n < (int)sizeof folder && find_model(folder, file)) {
        load(walk, name, file);
        return;
    }
    snprintf(file, sizeof file, "not loaded: its version %s has no model.onnx or model.pt2",
             version);
    fail(walk, path, file);
}

static void load_entry(struct walk *walk, const char *entry)
{
    char path[4096], name[256], why[300];
    struct stat st;
    size_t length = name_length(entry);
    int n = snprintf(path, sizeof path, "%s/%s", walk->directory, entry);
    if (*entry == '.' || n >= (int)sizeof path)
        return;
    if (stat(path, &st)) { /* a link to nowhere, or to where this process may not look */
        if (!length)
            return;
        snprintf(why, sizeof why, "not loaded: %s", strerror(errno));
        fail(walk, path, why);
    } else if (S_ISDIR(st.st_mode)) {
        load_versions(walk, entry, path);
    } else if (length) {
        snprintf(name, sizeof name, "%.*s", (int)length, entry);
        load(walk, name, path);
    }
}

int td_api_load_models(struct td_service *service, const char *directory,
                       void (*say)(const char *sentence))
{
    struct walk walk = {service->models, directory, say, 0};
    struct dirent **entries;
    int n = scandir(directory, &entries, NULL, alphasort);
    if (n < 0)
        return -errno;
    for (int i = 0; i < n; i++) {
        if (!atomic_load(&service->front.draining))
            load_entry(&walk, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return walk.failed;
}
