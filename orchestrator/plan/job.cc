#include "orchestrator/plan/job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/digest/sha256.h"

namespace sweep::plan {

namespace {

using nlohmann::json;

json settings_json(const std::vector<Setting>& settings) {
  json list = json::array();
  for (const Setting& setting : settings)
    list.push_back({{"name", setting.name}, {"value", setting.value}, {"is_switch", setting.is_switch}});
  return list;
}

// Everything that makes the point what it is.
json canonical_json(const Job& job) {
  return {{"entry", job.entry},
          {"image", job.image},
          {"image_pinned", job.image_pinned},
          {"model", job.model},
          {"model_prefix", job.model_prefix},
          {"revision", job.revision},
          {"pin", job.pin},
          {"precision", job.precision},
          {"framework", job.framework},
          {"runner", job.runner},
          {"isl", job.isl},
          {"osl", job.osl},
          {"concurrency", job.concurrency},
          {"tp", job.tp},
          {"pp", job.pp},
          {"ep", job.ep},
          {"dp_attn", job.dp_attn},
          {"multinode", job.multinode},
          {"gpus", job.gpus},
          {"spec_decoding", job.spec_decoding},
          {"num_draft_tokens", job.num_draft_tokens},
          {"acceptance",
           {{"source", acceptance_source_name(job.acceptance.source)},
            {"length", job.acceptance.length ? json(*job.acceptance.length) : json(nullptr)}}},
          {"exact_lengths", job.exact_lengths},
          {"requests", job.requests},
          {"warmup_requests", job.warmup_requests},
          {"status", status_name(job.status)},
          {"research_only", job.research_only},
          {"authorization", job.authorization},
          {"deviations", job.deviations},
          {"recipe", job.recipe},
          {"engine_flags", settings_json(job.engine_flags)},
          {"environment", settings_json(job.environment)}};
}

// Reads members of one object; the first problem is kept.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {
    if (!object.is_object()) fail("", "an object");
  }

  void read(const char* name, std::string& out) {
    if (const json* value = find(name, &json::is_string, "text")) out = value->get_ref<const std::string&>();
  }
  void read(const char* name, int64_t& out) {
    if (const json* value = find(name, &json::is_number_integer, "an integer")) out = value->get<int64_t>();
  }
  void read(const char* name, bool& out) {
    if (const json* value = find(name, &json::is_boolean, "a boolean")) out = value->get<bool>();
  }
  void read(const char* name, std::vector<std::string>& out) {
    const json* value = find(name, &json::is_array, "a list");
    if (value == nullptr) return;
    for (const json& item : *value) {
      if (!item.is_string()) return fail(name, "a list of texts");
      out.push_back(item.get_ref<const std::string&>());
    }
  }
  void read(const char* name, std::vector<Setting>& out) {
    const json* value = find(name, &json::is_array, "a list");
    if (value == nullptr) return;
    for (const json& item : *value) {
      Reader reader(item);
      Setting& setting = out.emplace_back();
      reader.read("name", setting.name);
      reader.read("value", setting.value);
      reader.read("is_switch", setting.is_switch);
      if (!reader.problem_.empty() && problem_.empty()) problem_ = reader.problem_;
    }
  }

  // An object member, or null with the problem noted.
  const json* object(const char* name) { return find(name, &json::is_object, "an object"); }

  void fail(std::string_view name, std::string_view expected) {
    if (problem_.empty()) problem_ = fmt::format("field \"{}\" of a job must be {}", name, expected);
  }
  const std::string& problem() const { return problem_; }

 private:
  const json* find(const char* name, bool (json::*is)() const noexcept, std::string_view expected) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end() && ((*found).*is)()) return &*found;
    fail(name, expected);
    return nullptr;
  }

  const json& object_;
  std::string problem_;
};

void read_where(Reader& reader, diag::SourceSpan& where) {
  const json* place = reader.object("where");
  if (place == nullptr) return;
  Reader inner(*place);
  int64_t line = 0;
  int64_t column = 0;
  int64_t end_column = 0;
  inner.read("file", where.file);
  inner.read("line", line);
  inner.read("column", column);
  inner.read("end_column", end_column);
  const auto fits = [](int64_t value) { return value >= 0 && value <= UINT32_MAX; };
  if (!inner.problem().empty() || !fits(line) || !fits(column) || !fits(end_column))
    return reader.fail("where", "a place in a file");
  where.line = static_cast<uint32_t>(line);
  where.column = static_cast<uint32_t>(column);
  where.end_column = static_cast<uint32_t>(end_column);
}

void read_acceptance(Reader& reader, Acceptance& acceptance) {
  const json* object = reader.object("acceptance");
  if (object == nullptr) return;
  Reader inner(*object);
  std::string source;
  inner.read("source", source);
  const auto parsed = parse_acceptance_source(source);
  const auto length = object->find("length");
  if (!parsed || length == object->end() || (!length->is_null() && !length->is_number()))
    return reader.fail("acceptance", "a source with a length or null");
  acceptance.source = *parsed;
  if (length->is_number()) acceptance.length = length->get<double>();
}

}  // namespace

std::string_view acceptance_source_name(AcceptanceSource source) {
  return schema::choice_name(source);
}

std::optional<AcceptanceSource> parse_acceptance_source(std::string_view text) {
  return schema::parse_choice<AcceptanceSource>(text);
}

std::string_view status_name(Status status) {
  return schema::choice_name(status);
}

std::optional<Status> parse_status(std::string_view text) {
  return schema::parse_choice<Status>(text);
}

std::string job_id(const Job& job) {
  constexpr size_t kDigits = 12;
  // Text from files is valid UTF-8, but a job built elsewhere need not be: never throw over it.
  const std::string text = canonical_json(job).dump(-1, ' ', false, json::error_handler_t::replace);
  return digest::sha256_hex(text).substr(0, kDigits);
}

json to_json(const Job& job) {
  json result = canonical_json(job);
  result["id"] = job.id;
  result["where"] = {{"file", job.where.file},
                     {"line", job.where.line},
                     {"column", job.where.column},
                     {"end_column", job.where.end_column}};
  return result;
}

diag::Result<Job> job_from_json(const json& object) {
  Job job;
  Reader reader(object);
  reader.read("id", job.id);
  reader.read("entry", job.entry);
  reader.read("image", job.image);
  reader.read("image_pinned", job.image_pinned);
  reader.read("model", job.model);
  reader.read("model_prefix", job.model_prefix);
  reader.read("revision", job.revision);
  reader.read("pin", job.pin);
  reader.read("precision", job.precision);
  reader.read("framework", job.framework);
  reader.read("runner", job.runner);
  reader.read("isl", job.isl);
  reader.read("osl", job.osl);
  reader.read("concurrency", job.concurrency);
  reader.read("tp", job.tp);
  reader.read("pp", job.pp);
  reader.read("ep", job.ep);
  reader.read("dp_attn", job.dp_attn);
  reader.read("multinode", job.multinode);
  reader.read("gpus", job.gpus);
  reader.read("spec_decoding", job.spec_decoding);
  reader.read("num_draft_tokens", job.num_draft_tokens);
  reader.read("exact_lengths", job.exact_lengths);
  reader.read("requests", job.requests);
  reader.read("warmup_requests", job.warmup_requests);
  reader.read("research_only", job.research_only);
  reader.read("authorization", job.authorization);
  reader.read("deviations", job.deviations);
  reader.read("recipe", job.recipe);
  reader.read("engine_flags", job.engine_flags);
  reader.read("environment", job.environment);
  read_acceptance(reader, job.acceptance);
  read_where(reader, job.where);
  std::string status;
  reader.read("status", status);
  if (const auto parsed = parse_status(status))
    job.status = *parsed;
  else
    reader.fail("status", "ready or in-progress");
  if (!reader.problem().empty()) return diag::fail(diag::rule::file_malformed, reader.problem());
  return job;
}

}  // namespace sweep::plan
