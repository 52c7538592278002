// How the files of a model may lie on disk. A layout tells where the files are and where links may lead; it proves
// nothing about their content.
#pragma once

#include <cstdint>
#include <string_view>

namespace sweep::weights {

enum class Layout : uint8_t {
  kPlain,     // the files and nothing else
  kHubCache,  // models--ORG--NAME/{blobs,refs,snapshots}: a snapshot's links lead into blobs/
  kLocalDir,  // the files, with download records in .cache/huggingface/
};
std::string_view layout_name(Layout layout);  // "plain", "hub-cache", "local-dir"

}  // namespace sweep::weights
