// SARIF 2.1.0 (OASIS standard), as code-scanning services read it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/render.h"

namespace sweep::diag {

namespace {

using json = nlohmann::ordered_json;

json text(std::string_view value) {
  return {{"text", base::valid_utf8(value)}};
}

// A relative reference, or file:// for an absolute path; everything but unreserved characters and "/" is encoded
// (RFC 3986).
std::string uri_of(std::string_view path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                      c == '.' || c == '_' || c == '~' || c == '/';
    if (kept)
      uri += c;
    else
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

// UTF-16 code units of the first `bytes` bytes of a line. A byte that belongs to no character counts as one, as readers
// show U+FFFD in its place.
size_t utf16_units(std::string_view line, size_t bytes) {
  const std::string valid = base::valid_utf8(line.substr(0, bytes));
  size_t units = 0;
  for (const char c : valid) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;
    units += byte >= 0xF0 ? 2 : 1;
  }
  return units;
}

// Columns need the text of the line: spans count bytes.
json region_of(const SourceSpan& where, const SourceMap& sources) {
  json region = {{"startLine", where.line}};
  const auto line = sources.line(where.file, where.line);
  if (!line || where.column == 0 || where.column > line->size() + 1) return region;
  const size_t begin = where.column - 1;
  region["startColumn"] = utf16_units(*line, begin) + 1;
  if (where.end_column > where.column)
    region["endColumn"] = utf16_units(*line, std::min<size_t>(where.end_column - 1, line->size())) + 1;
  return region;
}

json location_of(const SourceSpan& where, const SourceMap& sources) {
  json physical = {{"artifactLocation", {{"uri", uri_of(where.file)}}}};
  if (where.line != 0) physical["region"] = region_of(where, sources);
  return {{"physicalLocation", std::move(physical)}};
}

json rule_of(const RuleInfo& rule) {
  return {{"id", rule.slug},
          {"shortDescription", text(rule.summary)},
          {"fullDescription", text(rule.explanation)},
          {"help", text(fmt::format("{}\n\nThe same text: sweepctl explain {}", rule.explanation, rule.slug))},
          {"defaultConfiguration", {{"level", severity_name(rule.severity)}}}};
}

json result_of(const Diagnostic& d, size_t rule_index, const SourceMap& sources) {
  std::string message = d.message;
  if (!d.help.empty()) message += "\n" + d.help;
  json related = json::array();
  for (const Note& note : d.notes) {
    if (!note.where) {
      message += "\n" + note.message;
      continue;
    }
    json location = {{"id", related.size()}};
    location.update(location_of(*note.where, sources));
    location["message"] = text(note.message);
    related.push_back(std::move(location));
  }
  json result = {{"ruleId", rule_info(d.rule).slug},
                 {"ruleIndex", rule_index},
                 {"level", severity_name(d.severity)},
                 {"message", text(message)}};
  if (d.where) {
    json location = location_of(*d.where, sources);
    if (!d.path.empty())
      location["logicalLocations"] = json::array({{{"fullyQualifiedName", base::valid_utf8(d.path)}}});
    result["locations"] = json::array({std::move(location)});
  }
  if (!related.empty()) result["relatedLocations"] = std::move(related);
  return result;
}

}  // namespace

std::string render_sarif(const Diagnostics& diagnostics, const SourceMap& sources) {
  std::map<std::string_view, size_t> index;  // by slug
  for (const Diagnostic& d : diagnostics.items()) index.emplace(rule_info(d.rule).slug, 0);
  json rules = json::array();
  for (auto& [slug, place] : index) {
    place = rules.size();
    rules.push_back(rule_of(*find_rule(slug)));
  }
  json results = json::array();
  for (const Diagnostic& d : diagnostics.items())
    results.push_back(result_of(d, index.at(rule_info(d.rule).slug), sources));
  const json log = {
      {"$schema", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs",
       json::array(
           {{{"tool",
              {{"driver", {{"name", "sweepctl"}, {"semanticVersion", SWEEPCTL_VERSION}, {"rules", std::move(rules)}}}}},
             {"columnKind", "utf16CodeUnits"},
             {"results", std::move(results)}}})}};
  return log.dump(2) + "\n";
}

}  // namespace sweep::diag
