#include "orchestrator/plan/difference.h"

#include <fmt/format.h>

#include <algorithm>

namespace sweep::plan {

namespace {

std::string compact(const Row& value) {
  return value.dump(-1, ' ', false, Row::error_handler_t::replace);
}

bool is_list_of_maps(const Row& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Row& item) { return item.is_object(); });
}

class Walk {
 public:
  void compare(const Row& before, const Row& after) {
    if (before.is_object() && after.is_object()) return compare_maps(before, after);
    if (is_list_of_maps(before) && is_list_of_maps(after)) return compare_lists(before, after);
    // Sorted mappings: the order of keys is no difference.
    if (nlohmann::json(before) != nlohmann::json(after)) add(compact(before), compact(after));
  }

  std::vector<Difference> take() { return std::move(found_); }

 private:
  void compare_maps(const Row& before, const Row& after) {
    for (const auto& [key, value] : before.items()) {
      steps_.push_back({key, -1});
      const auto other = after.find(key);
      if (other == after.end())
        add(compact(value), {});
      else
        compare(value, *other);
      steps_.pop_back();
    }
    for (const auto& [key, value] : after.items()) {
      if (before.contains(key)) continue;
      steps_.push_back({key, -1});
      add({}, compact(value));
      steps_.pop_back();
    }
  }

  void compare_lists(const Row& before, const Row& after) {
    for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
      steps_.push_back({{}, static_cast<int64_t>(i)});
      if (i >= after.size())
        add(compact(before[i]), {});
      else if (i >= before.size())
        add({}, compact(after[i]));
      else
        compare(before[i], after[i]);
      steps_.pop_back();
    }
  }

  void add(std::string before, std::string after) { found_.push_back({steps_, std::move(before), std::move(after)}); }

  std::vector<Step> steps_;
  std::vector<Difference> found_;
};

// Whole mappings are too long for a message.
std::string shortened(const std::string& value) {
  constexpr size_t kMost = 80;
  if (value.empty()) return "(not stated)";
  if (value.size() <= kMost) return value;
  size_t cut = kMost;
  while (cut > 0 && (static_cast<unsigned char>(value[cut]) & 0xC0u) == 0x80u) --cut;  // not inside a character
  return value.substr(0, cut) + "...";
}

}  // namespace

std::string Difference::path() const {
  std::string path;
  for (const Step& step : steps)
    path += step.index >= 0 ? fmt::format("[{}]", step.index) : (path.empty() ? "" : ".") + step.key;
  return path;
}

std::string Difference::text() const {
  return fmt::format("{}: {} -> {}", path(), shortened(before), shortened(after));
}

std::vector<Difference> differences(const Row& before, const Row& after) {
  Walk walk;
  walk.compare(before, after);
  return walk.take();
}

std::string difference_text(const std::vector<Difference>& all) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < all.size() && i < kShown; ++i) text += (i == 0 ? "" : "; ") + all[i].text();
  if (all.size() > kShown) text += fmt::format("; and {} more", all.size() - kShown);
  return text;
}

const yaml::Node& locate(const yaml::Node& root, const std::vector<Step>& steps) {
  const yaml::Node* node = &root;
  for (const Step& step : steps) {
    const yaml::Node* next = nullptr;
    if (step.index < 0)
      next = node->find(step.key);
    else if (static_cast<size_t>(step.index) < node->items.size())
      next = &node->items[static_cast<size_t>(step.index)];
    if (next == nullptr) break;
    node = next;
  }
  return *node;
}

}  // namespace sweep::plan
