/* Any CUDA library. What `cudnnGetVersion` gives stands in a file beside it: `libcudnn.so.9.version`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

/* Of this very library, whichever other one is loaded before it. */
static int here;

__attribute__((visibility("default"))) size_t cudnnGetVersion(void) {
    Dl_info info;
    char path[4096];
    unsigned long long version = 0;
    if (!dladdr(&here, &info)) return 0;
    snprintf(path, sizeof path, "%s.version", info.dli_fname);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%llu", &version) != 1) version = 0;
    fclose(file);
    return (size_t)version;
}
