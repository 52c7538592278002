// Placeholder of the bandwidth floor.
extern "C" __global__ void plain_read(const uint4* data, size_t count, unsigned* out) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
    sum ^= data[i].x;
  if (sum == 0x12345678U) *out = sum;
}
