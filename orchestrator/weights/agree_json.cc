#include <nlohmann/json.hpp>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/weights/agree.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(base::valid_utf8(text));
}

// What all hosts have, or null.
json common(std::span<const HostReport> reports, std::string Report::*member) {
  for (const HostReport& host : reports)
    if (host.report.*member != reports.front().report.*member) return nullptr;
  return reports.empty() ? json(nullptr) : text_or_null(reports.front().report.*member);
}

bool is_from_cache(const Report& report) {
  for (const FileReport& file : report.files)
    if (file.proof == Proof::kCached) return true;
  return false;
}

json host_json(const HostReport& host, HostVerdict verdict) {
  const PinnedTotal total = pinned_total(host.report);
  return {{"host", base::valid_utf8(host.host)},
          {"report", base::valid_utf8(host.source)},
          {"verdict", host_verdict_name(verdict)},
          {"verified", host.report.verified},
          {"model", base::valid_utf8(host.report.model)},
          {"revision", base::valid_utf8(host.report.revision)},
          {"pin_sha256", text_or_null(host.report.pin_sha256)},
          {"layout", base::valid_utf8(host.report.layout)},
          {"files", total.files},
          {"bytes", total.bytes},
          {"from_cache", is_from_cache(host.report)}};
}

json group_json(const HostGroup& group, std::span<const HostReport> reports) {
  json hosts = json::array();
  for (const size_t host : group.hosts) hosts.push_back(base::valid_utf8(reports[host].host));
  return {{"hosts", std::move(hosts)},
          {"missing", group.missing},
          {"size", or_null(group.size)},
          {"sha256", or_null(group.sha256)},
          {"git_blob", or_null(group.git_blob)}};
}

}  // namespace

json to_json(const Agreement& agreement, std::span<const HostReport> reports) {
  json hosts = json::array();
  for (size_t i = 0; i < reports.size(); ++i) hosts.push_back(host_json(reports[i], agreement.verdicts[i]));
  json identical = json::object();
  for (size_t i = 0; i < kContentClasses; ++i)
    identical[std::string(content_class_name(static_cast<ContentClass>(i)))] = agreement.identical_files[i];
  json differences = json::array();
  for (const FileDifference& difference : agreement.differences) {
    json groups = json::array();
    for (const HostGroup& group : difference.groups) groups.push_back(group_json(group, reports));
    differences.push_back({{"path", base::valid_utf8(difference.path)},
                           {"content", content_class_name(difference.content)},
                           {"comparable", difference.comparable},
                           {"groups", std::move(groups)}});
  }
  json document = diag::to_json(agreement.findings);
  document.update({{"schema_version", kAgreementVersion},
                   {"agreed", agreement.agreed},
                   {"model", common(reports, &Report::model)},
                   {"revision", common(reports, &Report::revision)},
                   {"pin_sha256", common(reports, &Report::pin_sha256)},
                   {"hosts", std::move(hosts)},
                   {"hosts_from_cache", agreement.from_cache},
                   {"identical", std::move(identical)},
                   {"differences", std::move(differences)}});
  return document;
}

}  // namespace sweep::weights
