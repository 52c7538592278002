// Images that are named by tag only.
#include <fmt/format.h>

#include <map>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

bool is_pinned(std::string_view image) {
  constexpr std::string_view kDigest = "@sha256:";
  const size_t at = image.find(kDigest);
  return at != std::string_view::npos && kSha256Form.matches(image.substr(at + kDigest.size()));
}

bool needs_pinning(const MatrixEntry& entry) {
  constexpr std::string_view kNoImage = "none";
  return entry.image && *entry.image != kNoImage && !entry.is_embedded() && !is_pinned(*entry.image);
}

}  // namespace

void check_images(const Checkout& checkout, diag::Diagnostics& out) {
  struct Use {
    const MatrixEntry* first;
    size_t count;
  };
  std::vector<Use> uses;
  std::map<std::pair<const yaml::Document*, std::string_view>, size_t> index;
  for (const MatrixEntry& entry : checkout.entries) {
    if (!needs_pinning(entry)) continue;
    const auto [found, added] =
        index.emplace(std::pair{entry.document.get(), std::string_view(*entry.image)}, uses.size());
    if (added) uses.push_back({&entry, 0});
    ++uses[found->second].count;
  }
  for (const auto& [first, count] : uses)
    out.add(finding(rule::matrix_image_unpinned, *first->document, first->image.where, first->key + ".image",
                    fmt::format("image \"{}\" is not pinned by digest{}", *first->image,
                                count > 1 ? fmt::format(" ({} entries use it)", count) : std::string()),
                    "append @sha256:... once the digest is known; a tag can move to other content"));
}

}  // namespace sweep::schema
