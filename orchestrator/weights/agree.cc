#include "orchestrator/weights/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "orchestrator/diag/rules/weights.h"

namespace sweep::weights {

namespace {

namespace rule = diag::rule;

constexpr size_t kMostHosts = 4;   // named one by one in a message
constexpr size_t kMostGroups = 4;  // spelled out in a message
constexpr size_t kMostNotes = 3;   // findings of a host that is not verified

using FilesByHost = std::vector<const FileReport*>;  // null: the report does not list the file

bool is_known(const FileReport& file) {
  return file.sha256 || file.git_blob;
}

// What the hosts that know a file's content say: if it is one thing, and if the same kind of digest says so.
struct Sayings {
  std::set<std::string_view> sha256;
  std::set<std::string_view> git_blob;
  std::set<uint64_t> sizes;
  bool only_sha256 = false;    // on some host
  bool only_git_blob = false;  // likewise
  bool both = false;           // likewise: ties the two together

  void add(const FileReport& file) {
    if (file.sha256) sha256.insert(*file.sha256);
    if (file.git_blob) git_blob.insert(*file.git_blob);
    if (file.size) sizes.insert(*file.size);
    only_sha256 = only_sha256 || (file.sha256 && !file.git_blob);
    only_git_blob = only_git_blob || (!file.sha256 && file.git_blob);
    both = both || (file.sha256 && file.git_blob);
  }
  bool contradict() const { return sha256.size() > 1 || git_blob.size() > 1 || sizes.size() > 1; }
  bool comparable() const { return !only_sha256 || !only_git_blob || both; }

  // Equal for hosts that say the same.
  std::string key(const FileReport& file) const {
    if (sha256.size() > 1 || !comparable()) return file.sha256.value_or(file.git_blob.value_or(""));
    if (git_blob.size() > 1) return file.git_blob.value_or(file.sha256.value_or(""));
    return file.size ? std::to_string(*file.size) : "";
  }
};

std::string why_not_verified(const Report& report) {
  if (report.cancelled) return "its verification was interrupted";
  if (!report.verified && !report.findings.has_errors()) return "the content of its files was not read";
  if (!report.verified)
    return fmt::format("its verification found {} error{}", report.findings.error_count(),
                       report.findings.error_count() == 1 ? "" : "s");
  if (report.findings.has_errors()) return "its report says verified, and has errors";
  if (pinned_total(report).files == 0) return "its report lists no pinned file";
  for (const FileReport& file : report.files) {
    if (file.status == FileStatus::kExtra) continue;
    if (file.status != FileStatus::kOk)
      return fmt::format("its report says verified, and of \"{}\" {}", file.path, file_status_name(file.status));
    if (!is_known(file) || file.proof == Proof::kNone)
      return fmt::format("its report says verified, and gives no proof for \"{}\"", file.path);
  }
  return {};
}

class Comparison {
 public:
  explicit Comparison(std::span<const HostReport> reports) : reports_(reports) {
    result_.verdicts.assign(reports.size(), HostVerdict::kAgrees);
  }

  Agreement run();

 private:
  void check_repeated_hosts();
  void check_verified();
  void compare_texts(std::string_view field, std::string_view plural, std::string Report::*member);
  void compare_files();
  void compare(const std::string& path, const FilesByHost& files);
  void add_difference(const FileDifference& difference);
  void warn_extra(const std::string& path, const FilesByHost& files);
  void sort_groups(std::vector<HostGroup>& groups) const;
  void mark(const std::vector<HostGroup>& groups);

  std::string names(const std::vector<size_t>& hosts) const;
  std::string group_text(const HostGroup& group, bool with_size) const;
  std::string groups_text(const std::vector<HostGroup>& groups,
                          const std::function<std::string(const HostGroup&)>& text) const;
  void add(diag::RuleId rule, std::string path, std::string message, std::string help);

  std::span<const HostReport> reports_;
  Agreement result_;
};

void Comparison::add(diag::RuleId rule, std::string path, std::string message, std::string help) {
  diag::Diagnostic diagnostic = diag::make(rule, std::move(message), std::move(help));
  diagnostic.path = std::move(path);
  result_.findings.add(std::move(diagnostic));
}

std::string Comparison::names(const std::vector<size_t>& hosts) const {
  std::string text;
  const size_t named = hosts.size() <= kMostHosts + 1 ? hosts.size() : kMostHosts;  // never "and 1 more"
  for (size_t i = 0; i < named; ++i)
    text += fmt::format("{}\"{}\"",
                        i == 0                                    ? ""
                        : i + 1 == named && named == hosts.size() ? " and "
                                                                  : ", ",
                        reports_[hosts[i]].host);
  if (named < hosts.size()) text += fmt::format(" and {} more", hosts.size() - named);
  return text;
}

// What a host says counts less if it is not verified.
std::pair<size_t, size_t> rank(const HostGroup& group) {
  return {group.verified, group.hosts.size()};
}

bool has_majority(const std::vector<HostGroup>& groups) {
  return groups.size() < 2 || rank(groups[0]) > rank(groups[1]);
}

void Comparison::sort_groups(std::vector<HostGroup>& groups) const {
  for (HostGroup& group : groups)
    group.verified = static_cast<size_t>(std::count_if(group.hosts.begin(), group.hosts.end(), [&](size_t host) {
      return result_.verdicts[host] != HostVerdict::kNotVerified;
    }));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const HostGroup& a, const HostGroup& b) { return rank(a) > rank(b); });
}

void Comparison::mark(const std::vector<HostGroup>& groups) {
  for (size_t i = has_majority(groups) ? 1 : 0; i < groups.size(); ++i)
    for (const size_t host : groups[i].hosts)
      if (result_.verdicts[host] == HostVerdict::kAgrees) result_.verdicts[host] = HostVerdict::kDiffers;
}

std::string Comparison::group_text(const HostGroup& group, bool with_size) const {
  const bool one = group.hosts.size() == 1;
  std::string text = names(group.hosts);
  if (group.missing) return text + (one ? " lacks it" : " lack it");
  text += one ? " has" : " have";
  text += group.sha256 ? fmt::format(" SHA-256 {}", *group.sha256) : fmt::format(" git blob id {}", *group.git_blob);
  if (with_size && group.size) text += fmt::format(" ({} bytes)", *group.size);
  return text;
}

// Those in the minority first; they are what is to be mended.
std::string Comparison::groups_text(const std::vector<HostGroup>& groups,
                                    const std::function<std::string(const HostGroup&)>& text) const {
  std::string all;
  const size_t shown = std::min(groups.size(), kMostGroups);
  for (size_t i = 1; i < shown; ++i) all += text(groups[i]) + ", ";
  if (shown < groups.size()) all += fmt::format("{} more say something else, ", groups.size() - shown);
  all += text(groups[0]);
  if (reports_.size() > 2) all += fmt::format(" ({} of {} hosts)", groups[0].hosts.size(), reports_.size());
  return all;
}

void Comparison::check_repeated_hosts() {
  std::map<std::string_view, std::vector<size_t>> by_name;
  for (size_t i = 0; i < reports_.size(); ++i) by_name[reports_[i].host].push_back(i);
  for (const auto& [name, hosts] : by_name) {
    if (hosts.size() == 1) continue;
    std::string sources;
    for (size_t i = 0; i < std::min(hosts.size(), kMostHosts); ++i)
      sources += fmt::format("{}{}", i == 0 ? "" : ", ", reports_[hosts[i]].source);
    if (hosts.size() > kMostHosts) sources += ", ...";
    add(rule::weights_host_repeated, "", fmt::format("{} reports are of host \"{}\": {}", hosts.size(), name, sources),
        "give one report of each host");
  }
}

void Comparison::check_verified() {
  for (size_t i = 0; i < reports_.size(); ++i) {
    const HostReport& host = reports_[i];
    const bool cached = std::any_of(host.report.files.begin(), host.report.files.end(),
                                    [](const FileReport& file) { return file.proof == Proof::kCached; });
    if (cached) ++result_.from_cache;
    const std::string why = why_not_verified(host.report);
    if (why.empty()) continue;
    result_.verdicts[i] = HostVerdict::kNotVerified;
    diag::Diagnostic diagnostic =
        diag::make_at(rule::weights_host_not_verified, {.file = host.source},
                      fmt::format("\"{}\" is not verified: {}", host.host, why),
                      "mend what its report says, verify there again, and compare the new report");
    size_t errors = 0;
    for (const diag::Diagnostic& finding : host.report.findings.items()) {
      if (finding.severity != diag::Severity::kError || ++errors > kMostNotes) continue;
      diagnostic.notes.push_back({fmt::format("{} [{}]", finding.message, finding.rule.info().slug), std::nullopt});
    }
    if (errors > kMostNotes)
      diagnostic.notes.push_back({fmt::format("and {} more", errors - kMostNotes), std::nullopt});
    result_.findings.add(std::move(diagnostic));
  }
}

void Comparison::compare_texts(std::string_view field, std::string_view plural, std::string Report::*member) {
  std::map<std::string, HostGroup> by_value;
  for (size_t i = 0; i < reports_.size(); ++i) by_value[reports_[i].report.*member].hosts.push_back(i);
  if (const auto silent = by_value.find(""); silent != by_value.end()) {
    diag::Diagnostic diagnostic = diag::make(
        rule::weights_not_comparable,
        fmt::format("{} not say {}", names(silent->second.hosts) + (silent->second.hosts.size() == 1 ? " does" : " do"),
                    field == "pin_sha256" ? "which pin was used" : field),
        "verify there again with this sweepctl; until then only the files are compared");
    diagnostic.severity = diag::Severity::kWarning;
    diagnostic.path = field;
    result_.findings.add(std::move(diagnostic));
    by_value.erase(silent);
  }
  if (by_value.size() < 2) return;
  std::vector<HostGroup> groups;
  groups.reserve(by_value.size());
  for (auto& [value, group] : by_value) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const HostGroup& a, const HostGroup& b) { return a.hosts.front() < b.hosts.front(); });
  sort_groups(groups);
  mark(groups);
  const auto text = [&](const HostGroup& group) {
    return fmt::format("{} {} {}", names(group.hosts), group.hosts.size() == 1 ? "has" : "have",
                       reports_[group.hosts.front()].report.*member);
  };
  add(rule::weights_hosts_disagree, std::string(field),
      fmt::format("the hosts have different {}: {}", plural, groups_text(groups, text)),
      "verify every host against the same pin");
}

void Comparison::compare_files() {
  std::map<std::string_view, FilesByHost> by_path;
  for (size_t i = 0; i < reports_.size(); ++i)
    for (const FileReport& file : reports_[i].report.files) {
      FilesByHost& files = by_path[file.path];
      files.resize(reports_.size());
      files[i] = &file;
    }
  for (const auto& [path, files] : by_path) {
    const bool pinned = std::any_of(files.begin(), files.end(), [](const FileReport* file) {
      return file != nullptr && file->status != FileStatus::kExtra;
    });
    if (pinned)
      compare(std::string(path), files);
    else
      warn_extra(std::string(path), files);
  }
}

void Comparison::warn_extra(const std::string& path, const FilesByHost& files) {
  std::vector<size_t> hosts;
  for (size_t i = 0; i < files.size(); ++i)
    if (files[i] != nullptr) hosts.push_back(i);
  diag::Diagnostic diagnostic =
      diag::make(rule::weights_extra_file, fmt::format("\"{}\" is in no pin and lies on {}", path, names(hosts)),
                 "remove it, or pin the folder as it is");
  diagnostic.severity = diag::Severity::kWarning;  // what an engine would load keeps the host from being verified
  diagnostic.path = path;
  result_.findings.add(std::move(diagnostic));
}

void Comparison::compare(const std::string& path, const FilesByHost& files) {
  Sayings sayings;
  bool missing = false;
  size_t known = 0;
  for (const FileReport* file : files) {
    if (file == nullptr || file->status == FileStatus::kMissing) {
      missing = true;
    } else if (is_known(*file)) {
      ++known;
      sayings.add(*file);
    }
  }
  if (!missing && !sayings.contradict() && sayings.comparable()) {
    if (known == files.size()) ++result_.identical_files[static_cast<size_t>(content_class(path))];
    return;
  }
  if (known == 0) return;  // every host's own findings say so
  std::map<std::string, size_t> place;
  FileDifference difference{.path = path,
                            .content = content_class(path),
                            .comparable = missing || sayings.contradict() || sayings.comparable()};
  for (size_t i = 0; i < files.size(); ++i) {
    const FileReport* file = files[i];
    const bool absent = file == nullptr || file->status == FileStatus::kMissing;
    if (!absent && !is_known(*file)) continue;
    const auto [at, is_new] = place.try_emplace(absent ? "missing" : sayings.key(*file), difference.groups.size());
    if (is_new) difference.groups.push_back({.missing = absent});
    HostGroup& group = difference.groups[at->second];
    group.hosts.push_back(i);
    if (absent) continue;
    if (!group.size) group.size = file->size;
    if (!group.sha256) group.sha256 = file->sha256;
    if (!group.git_blob) group.git_blob = file->git_blob;
  }
  sort_groups(difference.groups);
  add_difference(difference);
  mark(difference.groups);
  result_.differences.push_back(std::move(difference));
}

void Comparison::add_difference(const FileDifference& difference) {
  const std::vector<HostGroup>& groups = difference.groups;
  std::set<uint64_t> sizes;
  for (const HostGroup& group : groups)
    if (group.size) sizes.insert(*group.size);
  const std::string text =
      groups_text(groups, [&](const HostGroup& group) { return group_text(group, sizes.size() > 1); });
  if (!difference.comparable)
    return add(rule::weights_not_comparable, difference.path,
               fmt::format("\"{}\" cannot be compared: {}", difference.path, text),
               "verify again with --no-cache: every file that is hashed gets a SHA-256");
  std::string help = "no side is in the majority: verify every host against the same pin";
  if (has_majority(groups)) {
    std::vector<size_t> others;
    for (size_t i = 1; i < groups.size(); ++i)
      others.insert(others.end(), groups[i].hosts.begin(), groups[i].hosts.end());
    std::sort(others.begin(), others.end());
    help = fmt::format("fetch the file again on {}, and verify there", names(others));
  }
  add(rule::weights_hosts_disagree, difference.path, fmt::format("\"{}\" differs: {}", difference.path, text),
      std::move(help));
}

Agreement Comparison::run() {
  check_repeated_hosts();
  check_verified();
  compare_texts("model", "models", &Report::model);
  compare_texts("revision", "revisions", &Report::revision);
  compare_texts("pin_sha256", "pins", &Report::pin_sha256);
  compare_files();
  result_.findings.normalise();
  result_.agreed = reports_.size() > 1 && !result_.findings.has_errors();
  return std::move(result_);
}

}  // namespace

std::string_view host_verdict_name(HostVerdict verdict) {
  switch (verdict) {
    case HostVerdict::kAgrees:
      return "agrees";
    case HostVerdict::kDiffers:
      return "differs";
    case HostVerdict::kNotVerified:
      return "not verified";
  }
  return {};
}

PinnedTotal pinned_total(const Report& report) {
  PinnedTotal total;
  for (const FileReport& file : report.files) {
    if (file.status == FileStatus::kExtra || file.status == FileStatus::kMissing) continue;
    ++total.files;
    total.bytes += file.size.value_or(0);
  }
  return total;
}

Agreement agree(std::span<const HostReport> reports) {
  return Comparison(reports).run();
}

}  // namespace sweep::weights
