#include "orchestrator/yaml/tree_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "orchestrator/diag/rules/yaml.h"

namespace sweep::yaml {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

constexpr std::string_view kMergeKey = "<<";

uint32_t tree_size(const Node& node) {
  uint32_t size = 1;
  for (const Node& item : node.items) size += tree_size(item);
  for (const Entry& entry : node.entries) size += tree_size(entry.value);
  return size;
}

bool is_break_or_blank(char c) {
  return c == ' ' || c == '\n';
}

}  // namespace

void TreeBuilder::report(RuleId rule, Range range, std::string message, std::string help) {
  out_.add(diag::make_at(rule, document_.span(range), std::move(message), std::move(help)));
}

uint32_t TreeBuilder::offset(const YAML::Mark& mark) const {
  const auto size = static_cast<uint32_t>(text_.size());
  return mark.pos < 0 ? size : std::min(static_cast<uint32_t>(mark.pos), size);
}

// A node's mark is where its anchor or tag begins; the value follows.
uint32_t TreeBuilder::skip_properties(uint32_t at) const {
  while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {
    while (at < text_.size() && !is_break_or_blank(text_[at])) ++at;
    while (at < text_.size() && is_break_or_blank(text_[at])) ++at;
  }
  return at;
}

Range TreeBuilder::scalar_range(uint32_t at, const std::string& value, bool quoted) const {
  const std::string_view rest = std::string_view(text_).substr(at);
  size_t length = value.size();
  if (quoted && !rest.empty() && (rest[0] == '"' || rest[0] == '\'')) {
    const char quote = rest[0];
    length = 1;
    while (length < rest.size()) {
      if (rest[length] == '\\' && quote == '"') {
        length += 2;
        continue;
      }
      if (rest[length] == quote) {
        if (quote != '\'' || length + 1 >= rest.size() || rest[length + 1] != '\'') break;
        ++length;
      }
      ++length;
    }
    length = std::min(length + 1, rest.size());
  } else if (quoted || !rest.starts_with(value)) {
    length = std::min(rest.find('\n'), rest.size());  // block style, or plain text over several lines
  }
  return {at, at + static_cast<uint32_t>(length)};
}

void TreeBuilder::check_tag(uint32_t at, const std::string& tag) {
  if (tag.empty() || tag == "?" || tag == "!") return;
  const std::string_view rest = std::string_view(text_).substr(at);
  const size_t length = std::min(rest.find_first_of(" \n"), rest.size());
  report(rule::yaml_tag, {at, at + static_cast<uint32_t>(length)}, fmt::format("tag \"{}\" is not supported", tag),
         "remove the tag; the type of a value follows from the field");
}

void TreeBuilder::count_nodes(uint32_t number, uint32_t at) {
  nodes_ += number;
  if (nodes_ <= limits_.nodes) return;
  report(rule::yaml_too_large, {at, at}, fmt::format("more than {} values in one file", limits_.nodes),
         "split the file");
  throw StopParsing{};
}

void TreeBuilder::OnDocumentStart(const YAML::Mark& mark) {
  if (started_) {
    report(rule::yaml_several_documents, {offset(mark), offset(mark) + 3}, "a second document begins here",
           "keep one document a file and remove the \"---\"");
    throw StopParsing{};
  }
  started_ = true;
}

void TreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  uint32_t at = skip_properties(offset(mark));
  Node node;
  const std::string_view rest = std::string_view(text_).substr(at);
  uint32_t length = 0;
  if (rest.starts_with("~")) length = 1;
  if (rest.starts_with("null") || rest.starts_with("Null") || rest.starts_with("NULL")) length = 4;
  if (!stack_.empty() && stack_.back().expects_value) {
    // An empty value is reported by the library at the next token: show the key instead.
    const Range key = stack_.back().node.entries.back().key_where;
    if (length == 0 || document_.line_of(at) != document_.line_of(key.begin)) {
      node.where = key;
      accept(std::move(node), anchor, 1);
      return;
    }
  }
  node.where = {at, at + length};
  accept(std::move(node), anchor, 1);
}

void TreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& value) {
  const uint32_t begin = offset(mark);
  check_tag(begin, tag);
  const uint32_t at = skip_properties(begin);
  Node node;
  node.kind = Kind::kScalar;
  node.quoted = tag == "!";
  node.text = value;
  node.where = scalar_range(at, value, node.quoted);
  accept(std::move(node), anchor, 1);
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const uint32_t at = offset(mark);
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    report(rule::yaml_syntax, {at, at + 1}, "an alias stands inside the value that it names");
    throw StopParsing{};
  }
  const Anchored& anchored = found->second;
  alias_nodes_ += anchored.size;
  if (alias_nodes_ > limits_.alias_nodes) {
    report(rule::yaml_alias_bomb, {at, at + 1},
           fmt::format("aliases expand to more than {} values", limits_.alias_nodes), "write the values out");
    throw StopParsing{};
  }
  if (stack_.size() + anchored.height > limits_.depth) {
    report(rule::yaml_too_deep, {at, at + 1}, fmt::format("nested deeper than {} levels", limits_.depth));
    throw StopParsing{};
  }
  accept(anchored.node, 0, anchored.height);
}

void TreeBuilder::open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
  const uint32_t begin = offset(mark);
  if (stack_.size() + 1 > limits_.depth) {
    report(rule::yaml_too_deep, {begin, begin + 1}, fmt::format("nested deeper than {} levels", limits_.depth));
    throw StopParsing{};
  }
  check_tag(begin, tag);
  Frame frame;
  frame.anchor = anchor;
  frame.node.kind = kind;
  const uint32_t at = skip_properties(begin);
  frame.node.where = {at, at + 1};
  if (!stack_.empty() && stack_.back().node.is_map() && !stack_.back().expects_value) {
    report(rule::yaml_key_not_text, {at, at + 1}, fmt::format("{} stands where a key is expected", kind_name(kind)),
           "keys are plain text");
    frame.is_key = true;
  }
  count_nodes(1, at);
  stack_.push_back(std::move(frame));
}

void TreeBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                                  YAML::EmitterStyle::value) {
  open(Kind::kSequence, mark, tag, anchor);
}

void TreeBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                             YAML::EmitterStyle::value) {
  open(Kind::kMap, mark, tag, anchor);
}

void TreeBuilder::OnSequenceEnd() {
  close();
}

void TreeBuilder::OnMapEnd() {
  finish_map(stack_.back());
  close();
}

void TreeBuilder::close() {
  Frame frame = std::move(stack_.back());
  stack_.pop_back();
  if (frame.is_key) {
    Frame& map = stack_.back();
    map.unusable.push_back(map.node.entries.size());
    map.node.entries.push_back({{}, frame.node.where, false, {}});
    map.expects_value = true;
    return;
  }
  accept(std::move(frame.node), frame.anchor, frame.height);
}

void TreeBuilder::accept(Node node, YAML::anchor_t anchor, uint32_t height) {
  if (!node.is_map() && !node.is_sequence()) count_nodes(1, node.where.begin);
  remember(node, anchor, height);
  if (stack_.empty()) {
    root_ = std::move(node);
    return;
  }
  Frame& frame = stack_.back();
  if (frame.node.is_map() && !frame.expects_value) {
    accept_key(frame, std::move(node));
    return;
  }
  frame.height = std::max(frame.height, height + 1);
  if (frame.node.is_sequence()) {
    frame.node.items.push_back(std::move(node));
  } else {
    frame.node.entries.back().value = std::move(node);
    frame.expects_value = false;
  }
}

void TreeBuilder::accept_key(Frame& frame, Node node) {
  if (!node.is_scalar()) {
    frame.unusable.push_back(frame.node.entries.size());
    report(rule::yaml_key_not_text, node.where, fmt::format("{} stands where a key is expected", kind_name(node.kind)),
           "keys are plain text; quote them if they look like something else");
  }
  Entry entry;
  entry.key = std::move(node.text);
  entry.key_where = node.where;
  if (node.is_scalar() && !node.quoted && entry.key == kMergeKey) frame.merge_keys.push_back(node.where);
  frame.node.entries.push_back(std::move(entry));
  frame.expects_value = true;
}

void TreeBuilder::remember(const Node& node, YAML::anchor_t anchor, uint32_t height) {
  if (anchor == 0) return;
  const uint32_t size = tree_size(node);
  alias_nodes_ += size;
  if (alias_nodes_ > limits_.alias_nodes) {
    report(rule::yaml_alias_bomb, node.where,
           fmt::format("anchored values hold more than {} values", limits_.alias_nodes), "write the values out");
    throw StopParsing{};
  }
  anchors_.insert_or_assign(anchor, Anchored{node, size, height});
}

void TreeBuilder::finish_map(Frame& frame) {
  for (auto i = frame.unusable.rbegin(); i != frame.unusable.rend(); ++i)
    frame.node.entries.erase(frame.node.entries.begin() + static_cast<std::ptrdiff_t>(*i));
  report_duplicates(frame.node);
  if (!frame.merge_keys.empty()) apply_merges(frame.node);
}

void TreeBuilder::report_duplicates(Node& map) {
  std::unordered_map<std::string_view, size_t> first;
  first.reserve(map.entries.size());
  std::vector<size_t> duplicates;
  for (size_t i = 0; i < map.entries.size(); ++i) {
    const Entry& entry = map.entries[i];
    const auto [place, inserted] = first.emplace(entry.key, i);
    if (inserted) continue;
    duplicates.push_back(i);
    diag::Diagnostic d =
        diag::make_at(rule::yaml_duplicate_key, document_.span(entry.key_where),
                      fmt::format("key \"{}\" is written twice in one mapping", entry.key),
                      entry.key == kMergeKey ? "merge from a list, `<<: [*a, *b]`, or write the keys out"
                                             : "remove one of the two; which one counts depends on the reader");
    d.notes.push_back({"first written here", document_.span(map.entries[place->second].key_where)});
    out_.add(std::move(d));
  }
  for (auto i = duplicates.rbegin(); i != duplicates.rend(); ++i)
    map.entries.erase(map.entries.begin() + static_cast<std::ptrdiff_t>(*i));
}

// Merge keys as YAML 1.1's type repository defines them (https://yaml.org/type/merge.html): the mapping's own keys
// win, and earlier mappings of a list win over later ones. Merged keys stand first, keys of later mappings before
// those of earlier ones, as the usual readers order them.
void TreeBuilder::apply_merges(Node& map) {
  const auto at =
      std::find_if(map.entries.begin(), map.entries.end(), [](const Entry& e) { return e.key == kMergeKey; });
  if (at == map.entries.end()) return;
  Entry merge = std::move(*at);
  map.entries.erase(at);
  std::vector<Node> sources;
  if (merge.value.is_sequence())
    sources = std::move(merge.value.items);
  else
    sources.push_back(std::move(merge.value));
  std::vector<Entry> merged;
  const auto put = [&merged](Entry entry) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Entry& e) { return e.key == entry.key; });
    if (same != merged.end())
      *same = std::move(entry);
    else
      merged.push_back(std::move(entry));
  };
  for (auto source = sources.rbegin(); source != sources.rend(); ++source) {
    if (!source->is_map()) {
      report(rule::yaml_merge_not_map, merge.key_where, "a merge key needs a mapping or a list of mappings");
      continue;
    }
    for (Entry& entry : source->entries) {
      entry.merged = true;
      put(std::move(entry));
    }
  }
  for (Entry& own : map.entries) put(std::move(own));
  map.entries = std::move(merged);
}

}  // namespace sweep::yaml
