#include "tests/support/same_tree.h"

namespace sweep::test {

namespace {

bool same(const yaml::Range& a, const yaml::Range& b) {
  return a.begin == b.begin && a.end == b.end;
}

}  // namespace

std::string first_difference(const yaml::Node& a, const yaml::Node& b, const std::string& path) {
  if (a.kind != b.kind) return path + ": kind";
  if (a.quoted != b.quoted) return path + ": quoted";
  if (a.text != b.text) return path + ": text \"" + a.text + "\" and \"" + b.text + "\"";
  if (!same(a.where, b.where)) return path + ": place";
  if (a.items.size() != b.items.size() || a.entries.size() != b.entries.size()) return path + ": size";
  for (size_t i = 0; i < a.items.size(); ++i) {
    std::string difference = first_difference(a.items[i], b.items[i], path + "[" + std::to_string(i) + "]");
    if (!difference.empty()) return difference;
  }
  for (size_t i = 0; i < a.entries.size(); ++i) {
    const yaml::Entry& left = a.entries[i];
    const yaml::Entry& right = b.entries[i];
    if (left.key != right.key || left.merged != right.merged) return path + ": key " + left.key;
    if (!same(left.key_where, right.key_where)) return path + ": place of key " + left.key;
    std::string difference = first_difference(left.value, right.value, path + "." + left.key);
    if (!difference.empty()) return difference;
  }
  return {};
}

}  // namespace sweep::test
