# Compile it with nvcc:
// __global__ void add(const int *a, const int *b, int *sum, int n) {
//   int i = blockDim.x * blockIdx.x + threadIdx.x;
//   if (i < n) sum[i] = a[i] + b[i];
// }
# Load it and launch it ...
