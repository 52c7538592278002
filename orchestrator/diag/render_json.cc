#include <nlohmann/json.hpp>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/render.h"

namespace sweep::diag {

namespace {
void put_place(nlohmann::json& json, const std::optional<SourceSpan>& where) {
  json["file"] = where ? nlohmann::json(base::valid_utf8(where->file)) : nlohmann::json(nullptr);
  json["line"] = where && where->line != 0 ? nlohmann::json(where->line) : nlohmann::json(nullptr);
  json["column"] = where && where->column != 0 ? nlohmann::json(where->column) : nlohmann::json(nullptr);
}
}  // namespace

nlohmann::json to_json(const Diagnostic& d) {
  nlohmann::json json = {{"severity", severity_name(d.severity)},  {"rule", rule_info(d.rule).slug},
                         {"message", base::valid_utf8(d.message)}, {"help", base::valid_utf8(d.help)},
                         {"path", base::valid_utf8(d.path)},       {"notes", nlohmann::json::array()}};
  put_place(json, d.where);
  for (const Note& note : d.notes) {
    nlohmann::json item = {{"message", base::valid_utf8(note.message)}};
    put_place(item, note.where);
    json["notes"].push_back(std::move(item));
  }
  return json;
}

nlohmann::json to_json(const Diagnostics& diagnostics) {
  nlohmann::json list = nlohmann::json::array();
  for (const Diagnostic& d : diagnostics.items()) list.push_back(to_json(d));
  return {{"diagnostics", std::move(list)},
          {"errors", diagnostics.error_count()},
          {"warnings", diagnostics.warning_count()}};
}

}  // namespace sweep::diag
