// Repeated keys of JSON objects while they are parsed. Readers disagree on which of two equal keys counts, so that one
// file would mean two things.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace sweep::weights {

class JsonKeys {
 public:
  void begin_object() {
    if (depth_ == open_.size()) open_.emplace_back();
    open_[depth_++].clear();
  }
  void key(const std::string& name) { open_[depth_ - 1].push_back(name); }
  void end_object() {
    std::vector<std::string>& keys = open_[--depth_];
    if (keys.size() < 2) return;
    std::sort(keys.begin(), keys.end());
    for (size_t i = 1; i < keys.size(); ++i)
      if (keys[i] == keys[i - 1] && (repeated_.empty() || repeated_.back() != keys[i])) repeated_.push_back(keys[i]);
  }
  const std::vector<std::string>& repeated() const { return repeated_; }

 private:
  std::vector<std::vector<std::string>> open_;  // keys of the objects around the current place; reused
  size_t depth_ = 0;
  std::vector<std::string> repeated_;
};

}  // namespace sweep::weights
