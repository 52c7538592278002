#include "orchestrator/sample/sample.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/diag/rules/file.h"

namespace sweep::sample {

namespace {

template <class Enum>
struct Named {
  Enum value;
  std::string_view name;
};

constexpr auto kPhases = std::to_array<Named<Phase>>({{Phase::kWarmUp, "warm-up"}, {Phase::kMeasured, "measured"}});
constexpr auto kOutputKinds = std::to_array<Named<OutputKind>>(
    {{OutputKind::kNone, "none"}, {OutputKind::kTokenIds, "token-ids"}, {OutputKind::kText, "text"}});

template <class Table, class Enum>
std::string_view name_in(const Table& table, Enum value) {
  for (const auto& row : table)
    if (row.value == value) return row.name;
  return {};
}

template <class Table>
auto value_in(const Table& table, std::string_view name) -> std::optional<decltype(table.front().value)> {
  for (const auto& row : table)
    if (row.name == name) return row.value;
  return std::nullopt;
}

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

bool fits_integer(const nlohmann::json& value) {
  return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
}

// Times and counts of a real run, whose differences and sums are numbers too.
bool is_amount(const nlohmann::json& value) {
  constexpr int64_t kMost = int64_t{1} << 62;
  return fits_integer(value) && value.get<int64_t>() >= 0 && value.get<int64_t>() <= kMost;
}

bool is_token_count(const nlohmann::json& value) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return is_amount(value) && value.get<int64_t>() <= kMost;
}

// Reads fields one after the other and remembers the first that is missing or of another type.
class Fields {
 public:
  explicit Fields(const nlohmann::json& json) : json_(json) {}

  void integer(const char* name, int64_t& out) {
    if (const auto* value = find(name, "an integer", fits_integer)) out = value->template get<int64_t>();
  }
  void natural(const char* name, uint64_t& out) {
    if (const auto* value = find(name, "a whole number", [](const auto& v) { return v.is_number_unsigned(); }))
      out = value->template get<uint64_t>();
  }
  void amount(const char* name, int64_t& out) {
    if (const auto* value = find(name, "a whole number", is_amount)) out = value->template get<int64_t>();
  }
  void optional_time(const char* name, std::optional<int64_t>& out) {
    optional(name, "nanoseconds or null", is_amount, out);
  }
  void optional_count(const char* name, std::optional<int64_t>& out) {
    optional(name, "a count of tokens or null", is_token_count, out);
  }
  void text(const char* name, std::string& out) {
    if (const auto* value = find(name, "text", [](const auto& v) { return v.is_string(); }))
      out = value->template get<std::string>();
  }
  const nlohmann::json* list(const char* name) {
    return find(name, "a list", [](const auto& v) { return v.is_array(); });
  }
  void reject(std::string reason) {
    if (problem_.empty()) problem_ = std::move(reason);
  }
  const std::string& problem() const { return problem_; }

 private:
  template <class Check>
  void optional(const char* name, std::string_view expected, Check check, std::optional<int64_t>& out) {
    const auto* value = find(name, expected, [&](const auto& v) { return v.is_null() || check(v); });
    if (value != nullptr && !value->is_null()) out = value->template get<int64_t>();
  }

  template <class Check>
  const nlohmann::json* find(const char* name, std::string_view expected, Check check) {
    const auto found = json_.find(name);
    if (found == json_.end() || !check(*found)) {
      reject(fmt::format("\"{}\" is not {}", name, expected));
      return nullptr;
    }
    return &*found;
  }

  const nlohmann::json& json_;
  std::string problem_;
};

void read_chunks(Fields& fields, Sample& sample) {
  const nlohmann::json* list = fields.list("chunks");
  if (list == nullptr) return;
  for (const auto& item : *list) {
    if (!item.is_array() || item.size() != 2 || !is_amount(item[0]) || !(is_token_count(item[1]) || item[1].is_null()))
      return fields.reject("\"chunks\" holds something else than [nanoseconds, tokens]");
    Chunk chunk{.ns = item[0].get<int64_t>(), .tokens = std::nullopt};
    if (!item[1].is_null()) chunk.tokens = item[1].get<int64_t>();
    sample.chunks.push_back(chunk);
  }
}

void read_problems(Fields& fields, Sample& sample) {
  const nlohmann::json* list = fields.list("problems");
  if (list == nullptr) return;
  for (const auto& item : *list) {
    if (!item.is_object()) return fields.reject("\"problems\" holds something else than objects");
    Fields inner(item);
    Problem problem;
    inner.text("rule", problem.rule);
    inner.text("message", problem.message);
    if (!inner.problem().empty()) return fields.reject(inner.problem());
    sample.problems.push_back(std::move(problem));
  }
}

}  // namespace

std::string_view phase_name(Phase phase) {
  return name_in(kPhases, phase);
}
std::optional<Phase> parse_phase(std::string_view text) {
  return value_in(kPhases, text);
}
std::string_view output_kind_name(OutputKind kind) {
  return name_in(kOutputKinds, kind);
}
std::optional<OutputKind> parse_output_kind(std::string_view text) {
  return value_in(kOutputKinds, text);
}

nlohmann::json to_json(const Sample& sample) {
  nlohmann::json problems = nlohmann::json::array();
  for (const Problem& problem : sample.problems)
    problems.push_back({{"rule", problem.rule}, {"message", problem.message}});
  nlohmann::json chunks = nlohmann::json::array();
  for (const Chunk& chunk : sample.chunks)
    chunks.push_back(nlohmann::json::array({nlohmann::json(chunk.ns), or_null(chunk.tokens)}));
  return {{"job", sample.job},
          {"sequence", sample.sequence},
          {"phase", phase_name(sample.phase)},
          {"prompt_seed", sample.prompt_seed},
          {"scheduled_ns", sample.scheduled_ns},
          {"sent_ns", sample.sent_ns},
          {"first_byte_ns", or_null(sample.first_byte_ns)},
          {"first_token_ns", or_null(sample.first_token_ns)},
          {"last_token_ns", or_null(sample.last_token_ns)},
          {"end_ns", sample.end_ns},
          {"sent_unix_ns", sample.sent_unix_ns},
          {"status", sample.status},
          {"problems", std::move(problems)},
          {"finish_reason", sample.finish_reason},
          {"prompt_tokens", or_null(sample.prompt_tokens)},
          {"completion_tokens", or_null(sample.completion_tokens)},
          {"received_tokens", or_null(sample.received_tokens)},
          {"cached_tokens", or_null(sample.cached_tokens)},
          {"chunks", std::move(chunks)},
          {"bytes", sample.bytes},
          {"output_kind", output_kind_name(sample.output_kind)},
          {"output_sha256", sample.output_sha256}};
}

diag::Result<Sample> sample_from_json(const nlohmann::json& json) {
  const auto malformed = [](std::string_view reason) {
    return diag::fail(diag::rule::file_malformed, fmt::format("not the record of a request: {}", reason));
  };
  if (!json.is_object()) return malformed("not an object");
  Sample sample;
  Fields fields(json);
  std::string phase;
  std::string kind;
  int64_t status = 0;
  fields.text("job", sample.job);
  fields.amount("sequence", sample.sequence);
  fields.text("phase", phase);
  fields.natural("prompt_seed", sample.prompt_seed);
  fields.amount("scheduled_ns", sample.scheduled_ns);
  fields.amount("sent_ns", sample.sent_ns);
  fields.optional_time("first_byte_ns", sample.first_byte_ns);
  fields.optional_time("first_token_ns", sample.first_token_ns);
  fields.optional_time("last_token_ns", sample.last_token_ns);
  fields.amount("end_ns", sample.end_ns);
  fields.amount("sent_unix_ns", sample.sent_unix_ns);
  fields.integer("status", status);
  read_problems(fields, sample);
  fields.text("finish_reason", sample.finish_reason);
  fields.optional_count("prompt_tokens", sample.prompt_tokens);
  fields.optional_count("completion_tokens", sample.completion_tokens);
  fields.optional_count("received_tokens", sample.received_tokens);
  fields.optional_count("cached_tokens", sample.cached_tokens);
  read_chunks(fields, sample);
  fields.amount("bytes", sample.bytes);
  fields.text("output_kind", kind);
  fields.text("output_sha256", sample.output_sha256);
  if (!fields.problem().empty()) return malformed(fields.problem());

  const auto parsed_phase = parse_phase(phase);
  const auto parsed_kind = parse_output_kind(kind);
  if (!parsed_phase) return malformed(fmt::format("phase \"{}\" is neither \"warm-up\" nor \"measured\"", phase));
  if (!parsed_kind) return malformed(fmt::format("output_kind \"{}\" is not known", kind));
  if (!std::in_range<int>(status)) return malformed("\"status\" is out of range");
  sample.phase = *parsed_phase;
  sample.output_kind = *parsed_kind;
  sample.status = static_cast<int>(status);
  return sample;
}

}  // namespace sweep::sample
