#include "orchestrator/changelog/align.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "orchestrator/yaml/scalar.h"

namespace sweep::changelog {

namespace {

constexpr std::string_view kLinkField = "pr-link";

// What an entry says, in a form that equals exactly when the parsed entries do: quoting, comments and the order of
// fields do not matter, defaults written out do.
struct Signature {
  std::string content;  // without pr-link
  std::string link;
  std::string keys;

  friend bool operator==(const Signature& a, const Signature& b) { return a.content == b.content && a.link == b.link; }
  std::string whole() const { return content + '\0' + link; }
};

void append_text(const std::string& text, std::string& out) {
  out += std::to_string(text.size()) + ':' + text;
}

void append(const yaml::Node& node, std::string& out);

void append_map(const yaml::Node& node, std::string_view without, std::string& out) {
  std::vector<const yaml::Entry*> entries;
  for (const yaml::Entry& entry : node.entries)
    if (entry.key != without) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const yaml::Entry* a, const yaml::Entry* b) { return a->key < b->key; });
  out += '{';
  for (const yaml::Entry* entry : entries) {
    append_text(entry->key, out);
    append(entry->value, out);
  }
  out += '}';
}

void append(const yaml::Node& node, std::string& out) {
  switch (node.kind) {
    case yaml::Kind::kNull:
      out += '~';
      return;
    case yaml::Kind::kScalar: {
      const bool text = node.quoted || yaml::mistaken_for(node.text).empty();
      out += text ? 't' : 'p';
      append_text(node.text, out);
      return;
    }
    case yaml::Kind::kSequence:
      out += '[';
      for (const yaml::Node& item : node.items) append(item, out);
      out += ']';
      return;
    case yaml::Kind::kMap:
      append_map(node, {}, out);
      return;
  }
}

Signature signature_of(const yaml::Node& item) {
  Signature result;
  if (!item.is_map()) {
    append(item, result.content);
    return result;
  }
  append_map(item, kLinkField, result.content);
  if (const yaml::Node* link = item.find(kLinkField)) append(*link, result.link);
  if (const yaml::Node* keys = item.find("config-keys")) append(*keys, result.keys);
  return result;
}

std::vector<Signature> signatures_of(const schema::ChangelogFile& file) {
  std::vector<Signature> result;
  result.reserve(file.entries.size());
  for (const yaml::Node& item : file.document->root().items) result.push_back(signature_of(item));
  return result;
}

// Pairs entries of base and head; a pair once made stays.
class Matching {
 public:
  Matching(std::vector<Signature> base, std::vector<Signature> head)
      : base_(std::move(base)),
        head_(std::move(head)),
        to_head_(base_.size()),
        to_base_(head_.size()),
        moved_(head_.size()) {}

  void run() {
    if (match_places()) return;
    match_ends();
    match_middle();
    // Pairs between kept neighbours: whatever stays between the same two entries and has something in common.
    match_between([](const Signature& a, const Signature& b) { return a.content == b.content; });
    match_between([](const Signature& a, const Signature& b) { return is_own_link(a.link) && a.link == b.link; });
    match_between([](const Signature& a, const Signature& b) { return !a.keys.empty() && a.keys == b.keys; });
    match_moved();
  }

  std::vector<Change> changes() const {
    std::vector<Change> result;
    size_t last_kept = 0;  // one past the last entry of the head that the base has
    for (size_t h = 0; h < head_.size(); ++h)
      if (to_base_[h]) last_kept = h + 1;
    size_t next_base = 0;
    const auto deletions_up_to = [&](size_t end, size_t place) {
      for (; next_base < end; ++next_base)
        if (!to_head_[next_base]) result.push_back({ChangeKind::kDeleted, next_base, std::nullopt, place});
    };
    for (size_t h = 0; h < head_.size(); ++h) {
      const std::optional<size_t> b = to_base_[h];
      if (!b) {
        if (h >= last_kept) deletions_up_to(base_.size(), h);
        result.push_back({h < last_kept ? ChangeKind::kInserted : ChangeKind::kAdded, std::nullopt, h, h});
        continue;
      }
      if (moved_[h]) {
        result.push_back({ChangeKind::kMoved, b, h, h});
        continue;
      }
      deletions_up_to(*b, h);
      if (base_[*b].content != head_[h].content)
        result.push_back({ChangeKind::kChanged, b, h, h});
      else if (base_[*b].link != head_[h].link)
        result.push_back({ChangeKind::kCorrected, b, h, h});
    }
    deletions_up_to(base_.size(), head_.size());
    return result;
  }

 private:
  static constexpr size_t kMostCells = 4'000'000;

  // A link that belongs to one entry, not the placeholder that many share.
  static bool is_own_link(const std::string& link) { return !link.empty() && !link.ends_with("XXX"); }

  void pair(size_t b, size_t h) {
    to_head_[b] = h;
    to_base_[h] = b;
  }

  // Entries that say the same at every place of the base: then only links differ, however alike entries are.
  bool match_places() {
    if (head_.size() < base_.size()) return false;
    for (size_t i = 0; i < base_.size(); ++i)
      if (base_[i].content != head_[i].content) return false;
    for (size_t i = 0; i < base_.size(); ++i) pair(i, i);
    return true;
  }

  void match_ends() {
    while (first_ < base_.size() && first_ < head_.size() && base_[first_] == head_[first_]) {
      pair(first_, first_);
      ++first_;
    }
    while (base_end() > first_ && head_end() > first_ && base_[base_end() - 1] == head_[head_end() - 1]) {
      pair(base_end() - 1, head_end() - 1);
      ++last_;
    }
  }
  size_t base_end() const { return base_.size() - last_; }
  size_t head_end() const { return head_.size() - last_; }

  // Longest common subsequence of equal entries; for very long rewritten stretches, equal entries in increasing order.
  void match_middle() {
    const size_t rows = base_end() - first_;
    const size_t columns = head_end() - first_;
    if (rows == 0 || columns == 0) return;
    if (rows > kMostCells / columns) {
      match_greedily();
      return;
    }
    std::vector<uint32_t> length((rows + 1) * (columns + 1), 0);
    const auto at = [&](size_t b, size_t h) -> uint32_t& { return length[b * (columns + 1) + h]; };
    for (size_t b = rows; b-- > 0;)
      for (size_t h = columns; h-- > 0;)
        at(b, h) = base_[first_ + b] == head_[first_ + h] ? at(b + 1, h + 1) + 1 : std::max(at(b + 1, h), at(b, h + 1));
    for (size_t b = 0, h = 0; b < rows && h < columns;) {
      if (base_[first_ + b] == head_[first_ + h]) {
        pair(first_ + b, first_ + h);
        ++b, ++h;
      } else if (at(b + 1, h) >= at(b, h + 1)) {
        ++b;
      } else {
        ++h;
      }
    }
  }

  void match_greedily() {
    std::unordered_map<std::string, std::vector<size_t>> places;
    for (size_t h = first_; h < head_end(); ++h) places[head_[h].whole()].push_back(h);
    size_t next = first_;
    for (size_t b = first_; b < base_end(); ++b) {
      const auto found = places.find(base_[b].whole());
      if (found == places.end()) continue;
      const auto place = std::lower_bound(found->second.begin(), found->second.end(), next);
      if (place == found->second.end()) continue;
      pair(b, *place);
      next = *place + 1;
    }
  }

  template <class Alike>
  void match_between(Alike alike) {
    size_t low = 0;
    size_t budget = kMostCells;  // what is compared in a file made to be slow
    for (size_t b = 0; b < base_.size(); ++b) {
      if (to_head_[b]) {
        low = *to_head_[b] + 1;
        continue;
      }
      for (size_t h = low; h < head_.size() && !to_base_[h] && budget > 0; ++h, --budget) {
        if (!alike(base_[b], head_[h])) continue;
        pair(b, h);
        low = h + 1;
        break;
      }
    }
  }

  void match_moved() {
    std::unordered_map<std::string, std::vector<size_t>> places;
    for (size_t h = head_.size(); h-- > 0;)
      if (!to_base_[h]) places[head_[h].content].push_back(h);
    for (size_t b = 0; b < base_.size(); ++b) {
      if (to_head_[b]) continue;
      const auto found = places.find(base_[b].content);
      if (found == places.end() || found->second.empty()) continue;
      pair(b, found->second.back());
      moved_[found->second.back()] = true;
      found->second.pop_back();
    }
  }

  std::vector<Signature> base_;
  std::vector<Signature> head_;
  std::vector<std::optional<size_t>> to_head_;
  std::vector<std::optional<size_t>> to_base_;
  std::vector<bool> moved_;  // entries of the head
  size_t first_ = 0;         // entries equal at the beginning
  size_t last_ = 0;          // and at the end
};

}  // namespace

std::vector<Change> align(const schema::ChangelogFile& base, const schema::ChangelogFile& head) {
  Matching matching(signatures_of(base), signatures_of(head));
  matching.run();
  return matching.changes();
}

std::string content_of(const yaml::Node& item) {
  return signature_of(item).content;
}

}  // namespace sweep::changelog
