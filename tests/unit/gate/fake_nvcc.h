// A program that answers `--version` as nvcc does and can do nothing else.
#pragma once

#include <filesystem>
#include <string>

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"

namespace sweep::test {

class FakeNvcc {
 public:
  // In `folder`, of a version like "13.0" and "88".
  FakeNvcc(const std::filesystem::path& folder, const std::string& release, const std::string& patch)
      : path_(folder / "nvcc") {
    REQUIRE(base::make_directories(folder).has_value());
    REQUIRE(base::write_file_atomic(path_,
                                    "#!/bin/sh\n"
                                    "echo 'nvcc: NVIDIA (R) Cuda compiler driver'\n"
                                    "echo 'Cuda compilation tools, release " +
                                        release + ", V" + release + "." + patch +
                                        "'\n"
                                        "echo 'Build cuda_" +
                                        release + ".r" + release + "/compiler.1_0'\n")
                .has_value());
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sweep::test
