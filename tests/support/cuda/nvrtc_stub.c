/* A libnvrtc that compiles nothing: its program is its source. GPUPROOF_NVRTC_STUB=CODE makes compiling fail. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const char *code_of(void) { return getenv("GPUPROOF_NVRTC_STUB"); }

EXPORT int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 4; return 0; }
EXPORT int nvrtcCreateProgram(void **out, const char *source, const char *name, int n, const char **h, const char **i) {
    (void)name; (void)n; (void)h; (void)i; *out = strdup(source); return 0;
}
EXPORT int nvrtcCompileProgram(void *program, int count, const char **options) {
    (void)program; (void)count; (void)options;
    return code_of() ? atoi(code_of()) : 0;
}
EXPORT int nvrtcGetProgramLogSize(void *program, size_t *out) { (void)program; *out = 14; return 0; }
EXPORT int nvrtcGetProgramLog(void *program, char *out) { (void)program; strcpy(out, "it was stubbed"); return 0; }
EXPORT int nvrtcGetPTXSize(void *program, size_t *out) { *out = strlen(program) + 1; return 0; }
EXPORT int nvrtcGetPTX(void *program, char *out) { strcpy(out, program); return 0; }
EXPORT int nvrtcGetCUBINSize(void *program, size_t *out) { *out = strlen(program) + 1; return 0; }
EXPORT int nvrtcGetCUBIN(void *program, char *out) { strcpy(out, program); return 0; }
EXPORT int nvrtcDestroyProgram(void **program) { free(*program); *program = NULL; return 0; }
EXPORT const char *nvrtcGetErrorString(int code) { (void)code; return "NVRTC_ERROR_OF_THE_STUB"; }
