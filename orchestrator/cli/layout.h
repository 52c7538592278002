// Where revisions keep their files: our layout, and that of the closest peer (InferenceX, utils/constants.py).
#pragma once

namespace sweep::cli {

// In the order in which they are looked for.
inline constexpr const char* kChangelogFiles[] = {"changelog/perf-changelog.yaml", "perf-changelog.yaml"};
inline constexpr const char* kMatrixFolders[] = {"matrix", "configs"};

// The peer reads its files in this order.
inline constexpr const char* kPeerMatrix[] = {"configs/amd-master.yaml", "configs/nvidia-master.yaml"};
inline constexpr const char* kPeerRunners = "configs/runners.yaml";

}  // namespace sweep::cli
