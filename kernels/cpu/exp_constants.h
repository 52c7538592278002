// exp(x) = 2^n * (1 + r + r^2 * P(r)) with n = round(x / ln 2) and r = x - n * ln 2, |r| <= ln(2) / 2. The coefficients
// are those of expf in the Cephes library; the error is about one unit in the last place.
#pragma once

namespace flashmla::cpu {

constexpr float kLog2E = 1.44269504088896341F;
// ln 2 in two parts: the first has few enough bits that its product with n is exact.
constexpr float kLn2High = 0.693359375F;
constexpr float kLn2Low = -2.12194440e-4F;
constexpr float kExpCoefficients[6] = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                       4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};
constexpr float kExpLowest = -110.0F;  // exp() of this and everything below it is 0 in FP32

}  // namespace flashmla::cpu
