// What a test needs to know of a CUDA library's file: its exported names, and what it holds for which GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flashmla::test {

// Names of the dynamic symbol table that the file itself defines. Fails the test if it is not a 64-bit ELF file.
std::vector<std::string> exported_names(const std::string& file);

struct DeviceCode {
  bool is_ptx = false;  // text for a later compilation, otherwise machine code
  uint32_t sm = 0;      // 90 for sm_90 and sm_90a
};
// The entries of all fat binaries in the file, in the layout that nvcc 12 and 13 write.
std::vector<DeviceCode> device_code(const std::string& file);

}  // namespace flashmla::test
