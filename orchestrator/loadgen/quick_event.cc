#include <algorithm>
#include <charconv>
#include <system_error>

#include "orchestrator/base/json_fields.h"
#include "orchestrator/base/utf8.h"
#include "orchestrator/loadgen/completion_event.h"

namespace sweep::loadgen {

namespace {

// Each function reads one thing and is false where that is not what stands there, or not plainly enough.
class QuickReader {
 public:
  QuickReader(std::string_view text, CompletionEvent& event)
      : at_(text.data()), end_(text.data() + text.size()), event_(event) {}

  bool run() {
    const bool read = object([this](std::string_view key) {
      if (key == "choices") return first_time(kChoices) && choices();
      if (key == "usage") return first_time(kUsage) && usage();
      if (key == "error") return first_time(kError) && null();
      return skip(0);
    });
    skip_blanks();
    return read && at_ == end_;
  }

 private:
  enum Key : unsigned {
    kChoices,
    kUsage,
    kError,
    kText,
    kDelta,
    kReason,
    kIds,
    kContent,
    kThought,
    kReasoning,
    kPrompt,
    kCompletion,
    kDetails,
    kCached
  };
  static constexpr int kDeepest = 64;

  // Of a key that is there twice, a tree keeps the last.
  bool first_time(Key key) {
    const unsigned bit = 1U << key;
    const bool first = (seen_ & bit) == 0;
    seen_ |= bit;
    return first;
  }

  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool next(char c) {
    skip_blanks();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool literal(std::string_view word) {
    skip_blanks();
    if (static_cast<size_t>(end_ - at_) < word.size() || std::string_view(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool null() { return literal("null"); }

  template <class Member>
  bool object(Member member) {
    if (!next('{')) return false;
    if (next('}')) return true;
    do {
      std::string_view key;
      if (!plain_string(key) || !next(':') || !member(key)) return false;
    } while (next(','));
    return next('}');
  }

  template <class Element>
  bool list(Element element) {
    if (!next('[')) return false;
    if (next(']')) return true;
    do {
      if (!element()) return false;
    } while (next(','));
    return next(']');
  }

  // Without escapes.
  bool plain_string(std::string_view& out) {
    if (!next('"')) return false;
    const char* begin = at_;
    while (at_ != end_ && *at_ >= 0x20 && *at_ < 0x7f && *at_ != '"' && *at_ != '\\') ++at_;
    out = std::string_view(begin, static_cast<size_t>(at_ - begin));
    return at_ != end_ && *at_++ == '"';
  }

  // Appended to `out`, if that is given.
  bool string(std::string* out) {
    if (!next('"')) return false;
    const char* begin = at_;
    bool ascii = true;
    while (at_ != end_) {
      const auto byte = static_cast<unsigned char>(*at_);
      if (byte == '"' || byte == '\\') {
        const std::string_view part(begin, static_cast<size_t>(at_ - begin));
        if (!ascii && !base::is_utf8(part)) return false;
        if (out != nullptr) out->append(part);
        ++at_;
        if (byte == '"') return true;
        if (!escape(out)) return false;
        begin = at_;
        ascii = true;
        continue;
      }
      if (byte < 0x20) return false;
      ascii = ascii && byte < 0x80;
      ++at_;
    }
    return false;
  }

  bool escape(std::string* out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (at_ == end_) return false;
    const char letter = *at_++;
    if (letter == 'u') return unicode(out);
    const size_t found = kLetters.find(letter);
    if (found == std::string_view::npos) return false;
    if (out != nullptr) *out += kMeant[found];
    return true;
  }

  bool unit(unsigned& value) {
    constexpr int kDigits = 4;
    if (end_ - at_ < kDigits) return false;
    const auto [stop, error] = std::from_chars(at_, at_ + kDigits, value, 16);
    if (error != std::errc() || stop != at_ + kDigits) return false;
    at_ = stop;
    return true;
  }

  bool unicode(std::string* out) {
    unsigned code = 0;
    if (!unit(code)) return false;
    if (code >= 0xD800 && code < 0xE000) {
      unsigned second = 0;
      if (code >= 0xDC00 || end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') return false;
      at_ += 2;
      if (!unit(second) || second < 0xDC00 || second >= 0xE000) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    }
    if (out != nullptr) append_utf8(code, *out);
    return true;
  }

  static void append_utf8(unsigned code, std::string& out) {
    const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | (code >> 12));
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xF0 | (code >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  // A whole number of up to 18 digits.
  bool integer(int64_t& value) {
    constexpr ptrdiff_t kMostDigits = 18;
    skip_blanks();
    const char* digits = at_ != end_ && *at_ == '-' ? at_ + 1 : at_;
    const char* stop = digits;
    while (stop != end_ && *stop >= '0' && *stop <= '9') ++stop;
    if (stop == digits || stop - digits > kMostDigits || (*digits == '0' && stop - digits > 1)) return false;
    if (stop != end_ && (*stop == '.' || *stop == 'e' || *stop == 'E')) return false;
    std::from_chars(at_, stop, value);
    at_ = stop;
    return true;
  }

  bool number() {
    int64_t ignored = 0;
    const char* begin = at_;
    if (integer(ignored)) return true;
    // A fraction: digits, a point, digits. One with an exponent may be too large for a reader.
    constexpr ptrdiff_t kMostDigits = 18;
    at_ = begin;
    if (at_ != end_ && *at_ == '-') ++at_;
    const auto digits = [this] {
      const char* first = at_;
      while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
      return at_ - first;
    };
    const char* first = at_;
    const ptrdiff_t whole = digits();
    if (whole == 0 || whole > kMostDigits || (*first == '0' && whole > 1) || at_ == end_ || *at_ != '.') return false;
    ++at_;
    const ptrdiff_t fraction = digits();
    return fraction > 0 && fraction <= kMostDigits && (at_ == end_ || (*at_ != 'e' && *at_ != 'E'));
  }

  bool skip(int depth) {
    skip_blanks();
    if (at_ == end_ || depth > kDeepest) return false;
    switch (*at_) {
      case '"':
        return string(nullptr);
      case '{':
        return object([this, depth](std::string_view) { return skip(depth + 1); });
      case '[':
        return list([this, depth] { return skip(depth + 1); });
      case 't':
        return literal("true");
      case 'f':
        return literal("false");
      case 'n':
        return null();
      default:
        return number();
    }
  }

  bool choices() {
    if (null()) return true;
    bool first = true;
    return list([&] {
      if (!first) return skip(0);
      first = false;
      event_.has_choice = true;
      return choice();
    });
  }

  bool choice() {
    return object([this](std::string_view key) {
      if (key == "text") return first_time(kText) && text();
      if (key == "delta") return first_time(kDelta) && (null() || delta());
      if (key == "finish_reason") return first_time(kReason) && (null() || string(&event_.finish_reason));
      if (key == "token_ids") return first_time(kIds) && (null() || ids());
      return skip(0);
    });
  }

  bool delta() {
    return object([this](std::string_view key) {
      if (key == "content") return first_time(kContent) && text();
      if (key == "reasoning_content") return first_time(kThought) && text();
      if (key == "reasoning") return first_time(kReasoning) && text();
      if (key == "tool_calls") return null();
      return skip(0);
    });
  }

  // Of two channels, the order matters.
  bool text() {
    if (null()) return true;
    const size_t before = event_.text.size();
    return string(&event_.text) && (before == 0 || event_.text.size() == before);
  }

  bool ids() {
    return list([this] {
      ++event_.ids_listed;
      return integer(event_.token_ids.emplace_back());
    });
  }

  bool count(std::optional<int64_t>& out) {
    if (null()) return true;
    int64_t value = 0;
    skip_blanks();
    if (at_ == end_ || *at_ == '-') return false;  // "-0" is no count
    if (!integer(value) || static_cast<uint64_t>(value) > base::kMostCounted) return false;
    out = value;
    return true;
  }

  bool usage() {
    if (null()) return true;
    event_.has_usage = true;
    return object([this](std::string_view key) {
      if (key == "prompt_tokens") return first_time(kPrompt) && count(event_.prompt_tokens);
      if (key == "completion_tokens") return first_time(kCompletion) && count(event_.completion_tokens);
      if (key == "prompt_tokens_details") return first_time(kDetails) && (null() || details());
      return skip(0);
    });
  }

  bool details() {
    return object([this](std::string_view key) {
      if (key == "cached_tokens") return first_time(kCached) && count(event_.cached_tokens);
      return skip(0);
    });
  }

  const char* at_;
  const char* end_;
  CompletionEvent& event_;
  unsigned seen_ = 0;
};

}  // namespace

bool read_event_quickly(std::string_view text, CompletionEvent& event) {
  event.has_error = event.has_usage = event.has_choice = false;
  event.prompt_tokens.reset();
  event.completion_tokens.reset();
  event.cached_tokens.reset();
  event.finish_reason.clear();
  event.text.clear();
  event.token_ids.clear();
  event.ids_listed = 0;
  return QuickReader(text, event).run();
}

}  // namespace sweep::loadgen
