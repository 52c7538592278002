#include <algorithm>

#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

namespace {

bool has(const yaml::Node& node, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return node.find_entry(key) != nullptr; });
}

bool is_matrix_entry(const yaml::Node& node) {
  return node.is_map() && has(node, {"scenarios", "model-prefix", "runner", "framework", "image"});
}

bool is_curve(const yaml::Node& node) {
  return node.is_map() && has(node, {"thinking_on", "thinking_off"});
}

bool is_recipe(const yaml::Node& node) {
  return has(node, {"resources", "backend", "zip_override", "benchmark"}) ||
         (node.find("base") != nullptr && node.find("base")->is_map() &&
          has(*node.find("base"), {"resources", "model"})) ||
         (has(node, {"model"}) && node.find("model")->is_map());
}

bool is_result(const yaml::Node& node) {
  const yaml::Node* kind = node.find("kind");
  return (kind != nullptr && kind->text == "sweepctl-result") ||
         (has(node, {"schema_version"}) && has(node, {"entry"}) && has(node, {"latency_ms", "workload", "valid"}));
}

bool is_row(const yaml::Node& node) {
  return node.is_map() && node.find_entry("exp-name") != nullptr && node.find_entry("conc") != nullptr;
}

bool any_value(const yaml::Node& node, bool (*is)(const yaml::Node&)) {
  return std::any_of(node.entries.begin(), node.entries.end(), [&](const yaml::Entry& e) { return is(e.value); });
}

// At least half of the keys are fields.
bool mostly_known(const yaml::Node& root, const ObjectShape& shape) {
  const auto known = std::count_if(root.entries.begin(), root.entries.end(),
                                   [&](const yaml::Entry& e) { return shape.find(e.key) != nullptr; });
  return known != 0 && known * 2 >= static_cast<std::ptrdiff_t>(root.entries.size());
}

std::optional<FileKind> kind_of_map(const yaml::Node& root) {
  if (is_result(root)) return FileKind::kResult;
  if (is_row(root)) return FileKind::kRow;
  if ((has(root, {"labels"}) || has(root, {"hardware"})) && mostly_known(root, runners_shape()))
    return FileKind::kRunners;
  if (has(root, {"schema_version", "files"}) && has(root, {"revision", "files"})) return FileKind::kPin;
  if (has(root, {"repo"}) && has(root, {"revision"})) return FileKind::kPin;
  if (is_recipe(root)) return FileKind::kRecipe;
  if (any_value(root, is_curve)) return FileKind::kAcceptance;
  const auto entries = std::count_if(root.entries.begin(), root.entries.end(),
                                     [](const yaml::Entry& e) { return is_matrix_entry(e.value); });
  if (entries != 0 && entries * 2 >= static_cast<std::ptrdiff_t>(root.entries.size())) return FileKind::kMatrix;
  if (mostly_known(root, cluster_shape())) return FileKind::kCluster;
  return std::nullopt;
}

bool contains(std::string_view path, std::string_view part) {
  return path.find(part) != std::string_view::npos;
}

std::optional<FileKind> kind_of_place(std::string_view path) {
  if (contains(path, "acceptance/")) return FileKind::kAcceptance;
  if (path.ends_with("result.json")) return FileKind::kResult;
  if (contains(path, "models/")) return FileKind::kPin;
  if (contains(path, "recipes/")) return FileKind::kRecipe;
  if (contains(path, "changelog")) return FileKind::kChangelog;
  if (path.ends_with("runners.yaml")) return FileKind::kRunners;
  if (contains(path, "matrix/")) return FileKind::kMatrix;
  return std::nullopt;
}

}  // namespace

std::optional<FileKind> find_kind(const yaml::Node& root, std::string_view path) {
  if (root.is_map())
    if (const auto kind = kind_of_map(root)) return kind;
  if (root.is_sequence() && std::any_of(root.items.begin(), root.items.end(), [](const yaml::Node& item) {
        return item.is_map() && has(item, {"config-keys", "pr-link", "description"});
      }))
    return FileKind::kChangelog;
  if (root.is_sequence() && std::any_of(root.items.begin(), root.items.end(), is_row)) return FileKind::kRow;
  return kind_of_place(path);
}

}  // namespace sweep::schema
