#include "orchestrator/schema/recipe_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "orchestrator/diag/rules/schema.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kOverride = "override_";
constexpr std::string_view kZipOverride = "zip_override_";
constexpr size_t kMostVariants = 256;             // of one zip; the largest known has 12
constexpr size_t kMostVariantValues = 1'000'000;  // in all variants of a file together

size_t tree_size(const yaml::Node& node) {
  size_t size = 1;
  for (const yaml::Node& item : node.items) size += tree_size(item);
  for (const yaml::Entry& entry : node.entries) size += tree_size(entry.value);
  return size;
}

yaml::Node merge(yaml::Node base, const yaml::Node& change) {
  if (!base.is_map() || !change.is_map()) return change;
  for (const yaml::Entry& entry : change.entries) {
    const auto same = std::find_if(base.entries.begin(), base.entries.end(),
                                   [&](const yaml::Entry& e) { return e.key == entry.key; });
    if (entry.value.is_null()) {
      if (same != base.entries.end()) base.entries.erase(same);
    } else if (same == base.entries.end()) {
      base.entries.push_back(entry);
    } else {
      same->key_where = entry.key_where;
      same->value = merge(std::move(same->value), entry.value);
    }
  }
  return base;
}

// The length that all list leaves agree on.
struct ZipLength {
  size_t length = 0;
  yaml::Range where;
  bool consistent = true;
};

void measure(const yaml::Node& node, ZipLength& zip, const yaml::Document& document, diag::Diagnostics& out) {
  for (const yaml::Entry& entry : node.entries) measure(entry.value, zip, document, out);
  if (!node.is_sequence()) return;
  if (node.items.empty()) {
    out.add(diag::make_at(rule::recipe_zip_lengths, document.span(node.where), "a list of a zip override is empty"));
    zip.consistent = false;
  } else if (node.items.size() > 1 && zip.length > 1 && node.items.size() != zip.length) {
    diag::Diagnostic d = diag::make_at(
        rule::recipe_zip_lengths, document.span(node.where),
        fmt::format("this list has {} items, others of the zip override have {}", node.items.size(), zip.length),
        "give all lists one length; a list of one item is repeated");
    d.notes.push_back({"a list of another length is here", document.span(zip.where)});
    out.add(std::move(d));
    zip.consistent = false;
  } else if (node.items.size() > zip.length) {
    zip.length = node.items.size();
    zip.where = node.where;
  }
}

yaml::Node pick(const yaml::Node& node, size_t index) {
  if (node.is_sequence()) return node.items[node.items.size() == 1 ? 0 : index];
  yaml::Node result = node;
  for (yaml::Entry& entry : result.entries) entry.value = pick(entry.value, index);
  return result;
}

using Variants = std::vector<std::pair<std::string, std::shared_ptr<const yaml::Node>>>;

Variants expand_overrides(const yaml::Document& document, diag::Diagnostics& out) {
  Variants variants;
  const yaml::Node& root = document.root();
  const yaml::Node* base = root.find("base");
  if (base == nullptr) {
    variants.emplace_back("", std::make_shared<const yaml::Node>(root));
    return variants;
  }
  variants.emplace_back("base", std::make_shared<const yaml::Node>(*base));
  for (const yaml::Entry& entry : root.entries) {
    if (entry.key == "base") continue;
    if (entry.key.starts_with(kOverride)) {
      variants.emplace_back(entry.key, std::make_shared<const yaml::Node>(merge(*base, entry.value)));
    } else if (entry.key.starts_with(kZipOverride)) {
      ZipLength zip;
      measure(entry.value, zip, document, out);
      if (zip.length == 0 && zip.consistent) {
        out.add(diag::make_at(rule::recipe_zip_lengths, document.span(entry.key_where),
                              fmt::format("\"{}\" holds no list to zip", entry.key),
                              fmt::format("use \"{}...\" for a single variant", kOverride)));
        continue;
      }
      if (!zip.consistent) continue;
      if (zip.length > kMostVariants || zip.length * tree_size(root) > kMostVariantValues) {
        out.add(diag::make_at(rule::recipe_zip_lengths, document.span(zip.where),
                              fmt::format("{} variants of this size from one zip override are too many, at most {}",
                                          zip.length, kMostVariants)));
        continue;
      }
      for (size_t i = 0; i < zip.length; ++i)
        variants.emplace_back(fmt::format("{}[{}]", entry.key, i),
                              std::make_shared<const yaml::Node>(merge(*base, pick(entry.value, i))));
    } else {
      diag::Diagnostic d =
          diag::make_at(rule::schema_unknown_field, document.span(entry.key_where),
                        fmt::format("unknown field \"{}\" beside \"base\"", entry.key),
                        "allowed here: base, override_NAME, zip_override_NAME; fields of the recipe go into base");
      d.path = entry.key;
      out.add(std::move(d));
    }
  }
  return variants;
}

// One parameter of a sweep.
struct Axis {
  const yaml::Entry* entry;
  bool used = false;
};

std::optional<std::string> fill_text(const std::string& text, const Axis& axis, const yaml::Node& value) {
  const std::string placeholder = fmt::format("{{{}}}", axis.entry->key);
  size_t at = text.find(placeholder);
  if (at == std::string::npos) return std::nullopt;
  std::string filled = text;
  for (; at != std::string::npos; at = filled.find(placeholder, at + value.text.size()))
    filled.replace(at, placeholder.size(), value.text);
  return filled;
}

// A text that is nothing but the placeholder becomes the value itself, with the value's place and type.
void fill(yaml::Node& node, Axis& axis, const yaml::Node& value) {
  for (yaml::Node& item : node.items) fill(item, axis, value);
  for (yaml::Entry& entry : node.entries) fill(entry.value, axis, value);
  if (!node.is_scalar()) return;
  if (auto filled = fill_text(node.text, axis, value)) {
    axis.used = true;
    if (node.text.size() == axis.entry->key.size() + 2)
      node = value;
    else
      node.text = *std::move(filled);
  }
}

std::vector<Axis> read_axes(const yaml::Node& sweep, const yaml::Document& document, diag::Diagnostics& out) {
  std::vector<Axis> axes;
  for (const yaml::Entry& entry : sweep.entries) {
    const bool scalars = entry.value.is_sequence() && !entry.value.items.empty() &&
                         std::all_of(entry.value.items.begin(), entry.value.items.end(),
                                     [](const yaml::Node& item) { return item.is_scalar(); });
    if (scalars) {
      axes.push_back({&entry});
      continue;
    }
    diag::Diagnostic d = diag::make_at(rule::recipe_sweep, document.span(entry.key_where),
                                       fmt::format("the sweep parameter \"{}\" must be a list of values", entry.key),
                                       fmt::format("write {}: [1, 2]", entry.key));
    d.path = "sweep." + entry.key;
    out.add(std::move(d));
  }
  return axes;
}

// Each variant of a file with `sweep` becomes one per combination of its parameters, the last parameter fastest.
Variants expand_sweep(const std::pair<std::string, std::shared_ptr<const yaml::Node>>& variant,
                      const yaml::Document& document, diag::Diagnostics& out) {
  const yaml::Node* sweep = variant.second->find("sweep");
  if (sweep == nullptr || !sweep->is_map() || sweep->entries.empty()) return {variant};
  std::vector<Axis> axes = read_axes(*sweep, document, out);
  size_t count = 1;
  for (const Axis& axis : axes) count = std::min(count * axis.entry->value.items.size(), kMostVariants + 1);
  if (count > kMostVariants || count * tree_size(*variant.second) > kMostVariantValues) {
    out.add(diag::make_at(rule::recipe_sweep, document.span(sweep->where),
                          fmt::format("the combinations of this sweep are too many, at most {}", kMostVariants)));
    return {};
  }
  Variants variants;
  for (size_t i = 0; i < count; ++i) {
    auto tree = std::make_shared<yaml::Node>(*variant.second);
    std::erase_if(tree->entries, [](const yaml::Entry& entry) { return entry.key == "sweep"; });
    size_t rest = i;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const auto& values = axis->entry->value.items;
      fill(*tree, *axis, values[rest % values.size()]);
      rest /= values.size();
    }
    variants.emplace_back(fmt::format("{}{}sweep[{}]", variant.first, variant.first.empty() ? "" : ".", i),
                          std::move(tree));
  }
  for (const Axis& axis : axes) {
    if (axis.used) continue;
    diag::Diagnostic d =
        diag::make_at(rule::recipe_sweep, document.span(axis.entry->key_where),
                      fmt::format("the sweep parameter \"{}\" is used nowhere", axis.entry->key),
                      fmt::format("write {{{}}} where its values belong, or remove it", axis.entry->key));
    d.path = "sweep." + axis.entry->key;
    out.add(std::move(d));
  }
  return variants;
}

}  // namespace

Variants expand_variants(const yaml::Document& document, diag::Diagnostics& out) {
  Variants variants;
  for (const auto& variant : expand_overrides(document, out)) {
    Variants expanded = expand_sweep(variant, document, out);
    std::move(expanded.begin(), expanded.end(), std::back_inserter(variants));
  }
  return variants;
}

}  // namespace sweep::schema
