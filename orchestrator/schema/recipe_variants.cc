#include "orchestrator/schema/recipe_variants.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace

std::vector<std::pair<std::string, std::shared_ptr<const yaml::Node>>> expand_variants(const yaml::Document& document,
                                                                                       diag::Diagnostics& out) {
  std::vector<std::pair<std::string, std::shared_ptr<const yaml::Node>>> variants;
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

}  // namespace sweep::schema
