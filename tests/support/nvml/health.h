/* The functions that say how a GPU is: memory errors, the PCIe link, MIG instances, the fabric. */

#define MIG_SLOTS 7

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
} FabricInfo;
typedef struct { unsigned version; unsigned long long counts[11]; unsigned worn; } SramStatus;

static int ask(const char *function, void *gpu, const char *key, unsigned *out) {
    const Row *row;
    int code = begin_gpu(function, gpu, &row);
    if (code) return code;
    long long value = condition_of(index_of(gpu), key);
    if (value < 0) return NOT_SUPPORTED;
    *out = (unsigned)value;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetEccMode(void *gpu, unsigned *current, unsigned *pending) {
    int code = ask(__func__, gpu, "ecc", current);
    if (!code) *pending = *current;
    return code;
}

EXPORT int nvmlDeviceGetTotalEccErrors(void *gpu, int type, int counter, unsigned long long *out) {
    unsigned value = 0;
    /* Corrected errors (type 0) are 0 if they are not named. */
    int code = ask(__func__, gpu, counter ? "ecc_aggregate" : "ecc_volatile", &value);
    if (!code && !type && (counter || ask(__func__, gpu, "ecc_corrected", &value))) value = 0;
    if (!code) *out = value;
    return code;
}

EXPORT int nvmlDeviceGetSramEccErrorStatus(void *gpu, SramStatus *out) { return ask(__func__, gpu, "sram_worn", &out->worn); }

EXPORT int nvmlDeviceGetRemappedRows(void *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                     unsigned *failed) {
    int code = ask(__func__, gpu, "remapped", uncorrected);
    if (code) return code;
    *corrected = *pending = *failed = 0;
    ask(__func__, gpu, "remap_pending", pending);
    ask(__func__, gpu, "remap_failed", failed);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(void *gpu, unsigned *out) { return ask(__func__, gpu, "pages_pending", out); }

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void *gpu, unsigned *out) { return ask(__func__, gpu, "width", out); }

EXPORT int nvmlDeviceGetMaxPcieLinkWidth(void *gpu, unsigned *out) { return ask(__func__, gpu, "width_max", out); }

EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, unsigned *out) { return ask(__func__, gpu, "generation", out); }

EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(void *gpu, unsigned *out) { return ask(__func__, gpu, "generation_max", out); }

EXPORT int nvmlDeviceGetPersistenceMode(void *gpu, unsigned *out) { return ask(__func__, gpu, "persistence", out); }

EXPORT int nvmlDeviceGetComputeMode(void *gpu, unsigned *out) { return ask(__func__, gpu, "compute_mode", out); }

EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(void *gpu, unsigned *out) {
    int code = ask(__func__, gpu, "power_default", out);
    if (!code) *out *= 1000;
    return code;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *gpu, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) *out = MIG_SLOTS;
    return code;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *gpu, unsigned index, void **out) {
    unsigned instances = 0;
    int code = ask(__func__, gpu, "mig_instances", &instances);
    if (code) return code;
    *out = (void *)((size_t)gpu | (size_t)(index + 1) << 8);
    return index < instances ? SUCCESS : NOT_FOUND;
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(void *gpu, FabricInfo *out) {
    unsigned state = 0, status = 0;
    int code = ask(__func__, gpu, "fabric", &state);
    if (code) return code;
    ask(__func__, gpu, "fabric_status", &status);
    out->state = (unsigned char)state;
    out->status = (int)status;
    return SUCCESS;
}
