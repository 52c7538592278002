// Whether the hosts that serve one model hold the same bytes: the reports of their verifications against each other.
// That each host is verified is not enough. Two pins of one model can differ, and a report can be of another day's pin.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/content_class.h"
#include "orchestrator/weights/host_report.h"

namespace sweep::weights {

inline constexpr int kAgreementVersion = 1;

// Hosts that say the same about one file.
struct HostGroup {
  std::vector<size_t> hosts;  // positions in the reports
  size_t verified = 0;        // of them
  bool missing = false;       // they do not have the file
  std::optional<uint64_t> size = {};
  std::optional<std::string> sha256 = {};
  std::optional<std::string> git_blob = {};
};

struct FileDifference {
  std::string path;
  ContentClass content = ContentClass::kOther;
  bool comparable = true;         // false: SHA-256 on one side and git blob ids on the other
  std::vector<HostGroup> groups;  // the one with most verified hosts first, then the largest
};

enum class HostVerdict : uint8_t { kAgrees, kDiffers, kNotVerified };
std::string_view host_verdict_name(HostVerdict verdict);  // "agrees", "differs", "not verified"

struct Agreement {
  bool agreed = false;                // two hosts or more, each verified, and nothing differs
  std::vector<HostVerdict> verdicts;  // as the reports. A host differs if it is not with the majority of those verified
  std::vector<FileDifference> differences;                // by path
  std::array<size_t, kContentClasses> identical_files{};  // on all hosts, by ContentClass
  size_t from_cache = 0;                                  // hosts of which some content was not read again
  diag::Diagnostics findings;
};

// Compares model, revision, pin, set of files and every file's content. Everything that differs is a finding that names
// hosts, file and digests; so is every host that is not verified. Files that no pin lists are warnings.
Agreement agree(std::span<const HostReport> reports);

// {"schema_version","agreed","model","revision","pin_sha256","hosts":[{"host","report","verdict","verified","model",
//  "revision","pin_sha256","layout","files","bytes","from_cache"}],"hosts_from_cache","identical":{"config",..},
//  "differences":[{"path","content","comparable","groups":[{"hosts","missing","size","sha256","git_blob"}]}],
//  "diagnostics":[..],"errors","warnings"}
// model, revision and pin_sha256 are null where the hosts do not have the same.
nlohmann::json to_json(const Agreement& agreement, std::span<const HostReport> reports);

// Number and bytes of the pinned files that a host has.
struct PinnedTotal {
  size_t files = 0;
  uint64_t bytes = 0;
};
PinnedTotal pinned_total(const Report& report);

}  // namespace sweep::weights
