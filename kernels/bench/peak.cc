#include "kernels/bench/peak.h"

#include <algorithm>
#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flashmla::bench {
namespace {

constexpr int64_t kRounds = 4'000'000;
constexpr int kSums = 12;  // enough to cover the latency of two units

volatile float g_sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double run_avx512() {
  __m512 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 term = _mm512_set1_ps(0.001F);
  for (int64_t round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  g_sink = _mm512_cvtss_f32(sums[0]);
  return 2.0 * 16 * kSums * kRounds;
}

__attribute__((target("avx2,fma"))) double run_avx2() {
  __m256 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 term = _mm256_set1_ps(0.001F);
  for (int64_t round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  g_sink = _mm256_cvtss_f32(sums[0]);
  return 2.0 * 8 * kSums * kRounds;
}
#endif

double run_scalar() {
  float sums[kSums] = {};
  for (int64_t round = 0; round < kRounds; ++round) {
    for (float& sum : sums) sum = sum * 0.999F + 0.001F;
  }
  g_sink = sums[0] + sums[kSums - 1];
  return 2.0 * kSums * kRounds;
}

double run() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return run_avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2();
#endif
  return run_scalar();
}

}  // namespace

double core_fma_peak() {
  double best = 0;
  for (int repeat = 0; repeat < 7; ++repeat) {
    timespec start{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    const double operations = run();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    const double seconds =
        static_cast<double>(end.tv_sec - start.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - start.tv_nsec);
    best = std::max(best, operations / seconds * 1e-9);
  }
  return best;
}

}  // namespace flashmla::bench
