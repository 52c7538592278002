#include "orchestrator/yaml/plain_reader.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

namespace sweep::yaml {

namespace {

constexpr size_t kMostKeyBytes = 1000;  // the library takes no key of more than 1024
constexpr size_t kFewKeys = 12;         // up to here comparing pairs is quicker than hashing

bool is_null_word(std::string_view text) {
  return text == "~" || text == "null" || text == "Null" || text == "NULL";
}

bool is_flow_indicator(char c) {
  return c == ',' || c == '[' || c == ']' || c == '{' || c == '}';
}

// Characters that begin something other than plain text, or that readers disagree about.
bool begins_plain(char c) {
  constexpr std::string_view kOther = ",[]{}#&*!|>'\"%@`?: \n";
  return kOther.find(c) == std::string_view::npos;
}

bool has_duplicates(const std::vector<Entry>& entries) {
  if (entries.size() <= kFewKeys) {
    for (size_t i = 1; i < entries.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (entries[i].key == entries[j].key) return true;
    return false;
  }
  std::unordered_set<std::string_view> seen;
  seen.reserve(entries.size());
  return !std::all_of(entries.begin(), entries.end(), [&](const Entry& e) { return seen.insert(e.key).second; });
}

// Every function returns false to give up.
class PlainReader {
 public:
  PlainReader(std::string_view text, const Limits& limits) : text_(text), limits_(limits) {}

  bool read(Node& root) { return !text_.empty() && find_content() && !ended_ && read_block(root, 1) && ended_; }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }
  bool blank_at(size_t at) const { return at >= text_.size() || text_[at] == ' ' || text_[at] == '\n'; }
  uint32_t here() const { return static_cast<uint32_t>(at_); }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool count_node() { return ++nodes_ <= limits_.nodes; }

  bool is_dash() const { return peek() == '-' && blank_at(at_ + 1); }

  // Nothing but blanks and a comment up to the end of the line.
  bool line_is_over() const {
    size_t at = at_;
    while (at < text_.size() && text_[at] == ' ') ++at;
    if (at >= text_.size() || text_[at] == '\n') return true;
    return text_[at] == '#' && at > 0 && blank_at(at - 1);
  }

  // To the first character of the next line that has content; `column_` is where it stands.
  bool next_line() {
    at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    return find_content();
  }

  // The same, beginning with the line that begins here.
  bool find_content() {
    while (at_ < text_.size()) {
      const size_t start = at_;
      skip_blanks();
      if (peek() != '\n' && peek() != '#') {
        column_ = at_ - start;
        const std::string_view rest = text_.substr(at_, 3);
        return column_ != 0 || (rest != "---" && rest != "..." && rest[0] != '%');
      }
      at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    }
    ended_ = true;
    return true;
  }

  bool read_block(Node& node, uint32_t depth) { return is_dash() ? read_list(node, depth) : read_map(node, depth); }

  // A value that begins on a line of its own, below its key or dash. Ends at the next line with content.
  bool read_below(Node& node, uint32_t depth) {
    if (is_dash() || is_key()) return read_block(node, depth);
    return read_inline(node, depth) && !node.is_null() && line_is_over() && next_line();
  }

  bool open(Node& node, Kind kind, uint32_t depth) {
    node.kind = kind;
    node.where = {here(), here() + 1};
    return depth <= limits_.depth && count_node();
  }

  bool read_map(Node& node, uint32_t depth) {
    if (!open(node, Kind::kMap, depth)) return false;
    const size_t column = column_;
    do {
      Entry& entry = node.entries.emplace_back();
      if (!read_key(entry, false)) return false;
      if (!read_map_value(entry, column, depth)) return false;
      if (ended_ || column_ < column) break;
      if (column_ > column || is_dash()) return false;
    } while (true);
    return !has_duplicates(node.entries);
  }

  // Ends at the next line with content.
  bool read_map_value(Entry& entry, size_t column, uint32_t depth) {
    if (!line_is_over()) return read_inline(entry.value, depth + 1) && line_is_over() && next_line();
    if (!next_line()) return false;
    if (!ended_ && (column_ > column || (column_ == column && is_dash()))) return read_below(entry.value, depth + 1);
    entry.value.where = entry.key_where;
    return count_node();
  }

  bool read_list(Node& node, uint32_t depth) {
    if (!open(node, Kind::kSequence, depth)) return false;
    const size_t column = column_;
    do {
      if (!read_item(node.items.emplace_back(), column, depth)) return false;
      if (ended_ || column_ < column) return true;
      if (column_ > column) return false;
    } while (is_dash());
    return true;  // a key in the same column goes on with the mapping around the list
  }

  // Ends at the next line with content.
  bool read_item(Node& node, size_t column, uint32_t depth) {
    const size_t dash = at_;
    ++at_;
    if (line_is_over()) return next_line() && !ended_ && column_ > column && read_below(node, depth + 1);
    skip_blanks();
    if (is_dash() || is_key()) {
      column_ = column + (at_ - dash);
      return read_block(node, depth + 1);
    }
    return read_inline(node, depth + 1) && line_is_over() && next_line();
  }

  // Whether a key of a block mapping begins here.
  bool is_key() {
    if (peek() == '[' || peek() == '{') return false;
    const size_t start = at_;
    std::string ignored;
    bool key = false;
    if (peek() == '"' || peek() == '\'') {
      key = read_quoted(ignored);
      skip_blanks();
      key = key && peek() == ':' && blank_at(at_ + 1);
    } else {
      const size_t line_end = std::min(text_.find('\n', at_), text_.size());
      for (size_t at = at_; at < line_end && !key; ++at) {
        if (text_[at] == '#' && at > start && text_[at - 1] == ' ') break;
        key = text_[at] == ':' && blank_at(at + 1);
      }
    }
    at_ = start;
    return key;
  }

  // A key and its colon.
  bool read_key(Entry& entry, bool in_flow) {
    const size_t start = at_;
    if (!count_node()) return false;
    if (peek() == '"' || peek() == '\'') {
      if (!read_quoted(entry.key)) return false;
      entry.key_where = {static_cast<uint32_t>(start), here()};
    } else {
      std::string_view key;
      if (!read_plain_text(key, in_flow)) return false;
      if (is_null_word(key) || key == "<<") return false;
      entry.key = key;
      entry.key_where = {static_cast<uint32_t>(start), static_cast<uint32_t>(start + key.size())};
    }
    if (at_ - start > kMostKeyBytes) return false;
    skip_blanks();
    if (peek() != ':' || !blank_at(at_ + 1)) return false;
    ++at_;
    return true;
  }

  // Plain text of this line, without the blanks around it; ends before a comment, a colon with a blank, or in flow
  // collections an indicator.
  bool read_plain_text(std::string_view& out, bool in_flow) {
    if (!begins_plain(peek()) || is_dash()) return false;
    const size_t start = at_;
    size_t end = at_;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') break;
      if (c == ' ') continue;
      if (c == '#' && text_[at_ - 1] == ' ') break;
      if (c == ':' && blank_at(at_ + 1)) break;
      if (in_flow) {
        if (is_flow_indicator(c)) break;
        if (c == '?' || (c == ':' && is_flow_indicator(peek(1)))) return false;
      }
      end = at_ + 1;
    }
    out = text_.substr(start, end - start);
    return true;
  }

  // Text in quotes, on one line, with no other escapes than \" and \\ .
  bool read_quoted(std::string& out) {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char c = text_[at_++];
      if (c == quote) {
        if (quote == '"' || peek() != '\'') return true;
        ++at_;
      } else if (c == '\\' && quote == '"') {
        if (peek() != '"' && peek() != '\\') return false;
        out += text_[at_++];
        continue;
      }
      out += c;
    }
    return false;
  }

  bool read_scalar(Node& node, bool in_flow) {
    if (!count_node()) return false;
    const uint32_t start = here();
    if (peek() == '"' || peek() == '\'') {
      if (!read_quoted(node.text)) return false;
      node.kind = Kind::kScalar;
      node.quoted = true;
      node.where = {start, here()};
      return true;
    }
    std::string_view text;
    if (!read_plain_text(text, in_flow)) return false;
    node.where = {start, start + static_cast<uint32_t>(text.size())};
    if (is_null_word(text)) return true;
    node.kind = Kind::kScalar;
    node.text = text;
    return true;
  }

  // A value that begins on the line of its key or dash.
  bool read_inline(Node& node, uint32_t depth) {
    skip_blanks();
    return read_flow_value(node, depth, false);
  }

  bool read_flow_value(Node& node, uint32_t depth, bool in_flow) {
    if (peek() == '[') return read_flow_list(node, depth);
    if (peek() == '{') return read_flow_map(node, depth);
    return read_scalar(node, in_flow);
  }

  // Flow collections may go on over several lines; a scalar of theirs may not.
  void skip_breaks() {
    while (at_ < text_.size() && blank_at(at_)) ++at_;
  }

  // Past a comma, or past the closing bracket: then `closed`.
  bool read_separator(char bracket, bool& closed) {
    skip_breaks();
    closed = peek() == bracket;
    if (!closed && peek() != ',') return false;
    ++at_;
    if (closed) return true;
    skip_breaks();
    return peek() != bracket;
  }

  bool read_flow_list(Node& node, uint32_t depth) {
    if (!open(node, Kind::kSequence, depth)) return false;
    ++at_;
    skip_breaks();
    bool closed = peek() == ']';
    if (closed) ++at_;
    while (!closed)
      if (!read_flow_value(node.items.emplace_back(), depth + 1, true) || !read_separator(']', closed)) return false;
    return true;
  }

  bool read_flow_map(Node& node, uint32_t depth) {
    if (!open(node, Kind::kMap, depth)) return false;
    ++at_;
    skip_breaks();
    bool closed = peek() == '}';
    if (closed) ++at_;
    while (!closed) {
      Entry& entry = node.entries.emplace_back();
      if (!read_key(entry, true)) return false;
      skip_blanks();
      if (!read_flow_value(entry.value, depth + 1, true) || !read_separator('}', closed)) return false;
    }
    return !has_duplicates(node.entries);
  }

  const std::string_view text_;
  const Limits& limits_;
  size_t at_ = 0;
  size_t column_ = 0;
  uint32_t nodes_ = 0;
  bool ended_ = false;
};

}  // namespace

std::optional<Node> read_plain(std::string_view text, const Limits& limits) {
  Node root;
  if (!PlainReader(text, limits).read(root)) return std::nullopt;
  return root;
}

}  // namespace sweep::yaml
