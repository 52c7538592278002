#include "orchestrator/hub/pin_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/diag/terminal_text.h"
#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/hub/api.h"
#include "orchestrator/hub/listing.h"
#include "orchestrator/weights/safetensors.h"

namespace sweep::hub {

namespace {

constexpr uint64_t kLargestPage = uint64_t{64} << 20;
constexpr std::string_view kConfigName = "config.json";

std::string identity_text(uint64_t size, const std::string& digest) {
  return fmt::format("{} bytes, {}", size, digest);
}

// Whether the content of the index is the one listed.
bool is_listed_content(const std::string& content, const ListedFile& listed, const std::string& where,
                       diag::Diagnostics& diagnostics) {
  const std::string found = listed.sha256 ? digest::sha256_hex(content) : digest::git_blob_id(content);
  if (content.size() == listed.size && found == listed.digest()) return true;
  diagnostics.add(
      diag::make(diag::rule::hub_identity,
                 fmt::format("the content of {} is not the one listed: found {}, expected {}", where,
                             identity_text(content.size(), found), identity_text(listed.size, listed.digest())),
                 "nothing was read from it"));
  return false;
}

// What the index says; its shards that are not listed go to `missing`.
std::optional<weights::IndexTotals> read_index(const std::string& content, std::span<const ListedFile> files,
                                               std::vector<std::string>& missing, diag::Diagnostics& diagnostics) {
  const std::string name(weights::kIndexName);
  const size_t errors_before = diagnostics.error_count();
  const auto index = weights::parse_index(content, name, diagnostics);
  if (!index || diagnostics.error_count() != errors_before) return std::nullopt;
  uint64_t shard_bytes = 0;
  for (const std::string& shard : index->files) {
    const ListedFile* listed = find_file(files, shard);
    if (listed == nullptr)
      missing.push_back(shard);
    else
      shard_bytes += listed->size;
  }
  std::sort(missing.begin(), missing.end());
  if (missing.empty() && index->total_size && *index->total_size > shard_bytes)
    diagnostics.add(diag::make(diag::rule::hub_index_total,
                               fmt::format("\"{}\" says that the tensors have {} bytes, but its {} files have {}", name,
                                           *index->total_size, index->files.size(), shard_bytes),
                               "the shards will not verify against this total"));
  return index->totals();
}

weights::Pin pin_of(const ModelRevision& wanted, std::span<const ListedFile> files,
                    std::optional<weights::IndexTotals> totals) {
  weights::Pin pin{.model = wanted.model, .revision = wanted.revision, .complete = true, .index = totals};
  for (const ListedFile& file : files)
    pin.files.push_back({.path = file.path, .size = file.size, .sha256 = file.sha256, .git_blob = file.git_blob});
  return pin;
}

bool no_files(std::span<const ListedFile> files, const ModelRevision& wanted, diag::Diagnostics& diagnostics) {
  if (!files.empty()) return false;
  diagnostics.add(diag::make(diag::rule::hub_missing_shard,
                             fmt::format("\"{}\" at {} has no files", wanted.model, wanted.revision)));
  return true;
}

void report_new_name(const std::string& asked, const std::string& current, diag::Diagnostics& diagnostics) {
  if (asked == current) return;
  diagnostics.add(diag::make(diag::rule::hub_renamed, fmt::format("\"{}\" is called \"{}\" now", asked, current),
                             "the pin carries the new name: use it in the matrix, too"));
}

void report_missing_numbers(std::span<const ListedFile> files, diag::Diagnostics& diagnostics) {
  const std::vector<std::string> missing = missing_numbers(files);
  if (missing.empty()) return;
  diagnostics.add(diag::make(diag::rule::hub_missing_shard,
                             fmt::format("the numbering of the shards calls for {}, not listed", enumeration(missing)),
                             "the upload is incomplete, or a page of the listing is missing"));
}

void report_unlisted(std::span<const std::string> missing, diag::Diagnostics& diagnostics) {
  diagnostics.add(diag::make(diag::rule::hub_missing_shard,
                             fmt::format("the index names {}, not listed", enumeration(missing)),
                             "a page of the listing is missing, or the upload is incomplete"));
}

// One pin from one hub: the steps of pin_from_hub() behind the listing.
class HubPin {
 public:
  HubPin(Connection& connection, ModelRevision wanted, std::vector<ListedFile> files, diag::Diagnostics& diagnostics)
      : connection_(connection), wanted_(std::move(wanted)), files_(std::move(files)), diagnostics_(diagnostics) {}

  // Each reports what it finds, and is false if the hub did not answer: the next ones would have to wait for it again.
  bool read_totals();
  bool compare_head();
  bool compare_paths();
  weights::Pin pin() const { return pin_of(wanted_, files_, totals_); }

 private:
  void report_missing(const std::vector<std::string>& missing);
  bool no_answer(const diag::Diagnostic& failure) {
    diagnostics_.add(failure);
    return false;
  }
  // Whether a second opinion is merely not to be had here: then a warning says so.
  bool is_unconfirmed(const diag::Diagnostic& failure);
  void disagree(const ListedFile& listed, std::string_view who, const std::string& said);

  Connection& connection_;
  ModelRevision wanted_;
  std::vector<ListedFile> files_;
  diag::Diagnostics& diagnostics_;
  std::optional<weights::IndexTotals> totals_;
};

void HubPin::disagree(const ListedFile& listed, std::string_view who, const std::string& said) {
  diagnostics_.add(diag::make(diag::rule::hub_identity,
                              fmt::format("\"{}\": the listing says {}, {} says {}", diag::printable(listed.path),
                                          identity_text(listed.size, listed.digest()), who, said)));
}

bool HubPin::is_unconfirmed(const diag::Diagnostic& failure) {
  if (failure.rule != diag::rule::hub_bad_reply && failure.rule != diag::rule::hub_no_repository) return false;
  diagnostics_.add(diag::make(diag::rule::hub_unconfirmed, "what is listed was not confirmed: " + failure.message));
  return true;
}

bool HubPin::read_totals() {
  const ListedFile* listed = find_file(files_, weights::kIndexName);
  if (listed == nullptr) {
    report_missing_numbers(files_, diagnostics_);
    return true;
  }
  if (listed->size > weights::kLargestIndex) {
    diagnostics_.add(
        diag::make(diag::rule::hub_bad_reply, fmt::format("\"{}\" has {} bytes, more than an index can have ({})",
                                                          listed->path, listed->size, weights::kLargestIndex)));
    return true;
  }
  const auto content = ask_content(connection_, wanted_, listed->path, weights::kLargestIndex);
  if (!content) return no_answer(content.error());
  if (!is_listed_content(*content, *listed, fmt::format("\"{}\"", listed->path), diagnostics_)) return true;
  std::vector<std::string> missing;
  totals_ = read_index(*content, files_, missing, diagnostics_);
  if (!missing.empty()) report_missing(missing);
  return true;
}

void HubPin::report_missing(const std::vector<std::string>& missing) {
  diag::Diagnostics ignored;
  const auto known = ask_paths(connection_, wanted_, missing, ignored);
  if (!known) return report_unlisted(missing, diagnostics_);
  std::vector<std::string> unlisted;
  std::vector<std::string> absent;
  for (const std::string& shard : missing) (find_file(*known, shard) != nullptr ? unlisted : absent).push_back(shard);
  if (!unlisted.empty())
    diagnostics_.add(diag::make(diag::rule::hub_missing_shard,
                                fmt::format("the index names {}: the repository has it, but the hub's listing does not "
                                            "name it",
                                            enumeration(unlisted)),
                                "the listing is incomplete: ask again later"));
  if (!absent.empty())
    diagnostics_.add(
        diag::make(diag::rule::hub_missing_shard,
                   fmt::format("the index names {}, which the repository does not have", enumeration(absent)),
                   "the upload is incomplete: no engine can load this commit"));
}

// The file whose headers are asked for: the config, else the smallest one.
const ListedFile& probe_of(std::span<const ListedFile> files) {
  if (const ListedFile* config = find_file(files, kConfigName)) return *config;
  return *std::min_element(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
}

bool HubPin::compare_head() {
  const ListedFile& probe = probe_of(files_);
  const auto head = ask_head(connection_, wanted_, probe.path);
  if (!head) return is_unconfirmed(head.error()) || no_answer(head.error());
  if (head->commit != wanted_.revision)
    diagnostics_.add(
        diag::make(diag::rule::hub_wrong_commit,
                   fmt::format("\"{}\": asked for commit {}, the reply is of \"{}\"", diag::printable(probe.path),
                               wanted_.revision, connection_.quoted(head->commit)),
                   "a cache between here and the hub may answer for another revision"));
  if (head->etag != probe.digest() || (head->size && *head->size != probe.size))
    disagree(probe, "its own reply",
             head->size ? identity_text(*head->size, connection_.quoted(head->etag)) : connection_.quoted(head->etag));
  return true;
}

bool HubPin::compare_paths() {
  std::vector<std::string> paths;
  for (const ListedFile& file : files_) paths.push_back(file.path);
  diag::Diagnostics failures;
  const auto known = ask_paths(connection_, wanted_, paths, failures);
  if (!known) {
    if (is_unconfirmed(failures.items().front())) return true;
    diagnostics_.add_all(failures);
    return false;
  }
  std::vector<std::string> unconfirmed;
  std::map<std::string, std::vector<std::string>> suspicious;  // by status
  for (const ListedFile& listed : files_) {
    const ListedFile* other = find_file(*known, listed.path);
    if (other == nullptr)
      unconfirmed.push_back(listed.path);
    else if (other->size != listed.size || other->digest() != listed.digest())
      disagree(listed, "paths-info", identity_text(other->size, other->digest()));
    else if (!other->security.empty() && other->security != "safe")
      suspicious[other->security].push_back(listed.path);
  }
  if (!unconfirmed.empty())
    diagnostics_.add(diag::make(diag::rule::hub_unconfirmed,
                                fmt::format("paths-info says nothing about {}, listed", enumeration(unconfirmed))));
  for (const auto& [status, names] : suspicious)
    diagnostics_.add(diag::make(
        diag::rule::hub_not_safe,
        fmt::format("the hub's scanners say \"{}\" about {}", connection_.quoted(status), enumeration(names)),
        "look at the model's page before running it"));
  return true;
}

}  // namespace

std::optional<ModelRevision> resolve_commit(Connection& connection, const ModelRevision& wanted,
                                            diag::Diagnostics& diagnostics) {
  auto found = ask_commit(connection, wanted);
  if (!found) {
    diagnostics.add(found.error());
    return std::nullopt;
  }
  diagnostics.add(diag::make(diag::rule::hub_resolved,
                             fmt::format("\"{}\" of \"{}\" is commit {} now", diag::printable(wanted.revision),
                                         found->model, found->revision)));
  report_new_name(wanted.model, found->model, diagnostics);
  return std::move(*found);
}

std::optional<weights::Pin> pin_from_hub(Connection& connection, const ModelRevision& wanted, const OnStep& on_step,
                                         diag::Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.error_count();
  on_step(fmt::format("listing {} at {}", wanted.model, wanted.revision));
  auto listing = ask_tree(connection, wanted, diagnostics);
  if (!listing || no_files(listing->files, wanted, diagnostics)) return std::nullopt;
  report_new_name(wanted.model, listing->model, diagnostics);
  HubPin pin(connection, {.model = listing->model, .revision = wanted.revision}, std::move(listing->files),
             diagnostics);
  on_step("reading the index of the shards");
  bool answers = pin.read_totals();
  if (answers) on_step("comparing with the hub's other answers");
  answers = answers && pin.compare_head();
  answers = answers && pin.compare_paths();
  if (!answers || diagnostics.error_count() != errors_before) return std::nullopt;
  return pin.pin();
}

std::optional<weights::Pin> pin_from_listing(const RecordedListing& recorded, diag::Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.error_count();
  for (const auto& checked : {check_model(recorded.wanted.model), check_commit(recorded.wanted)})
    if (!checked) diagnostics.add(checked.error());
  std::vector<ListedFile> files;
  for (const std::filesystem::path& page : recorded.pages) {
    const auto text = base::read_file(page, kLargestPage);
    if (!text) {
      diagnostics.add(diag::make(diag::rule::file_unreadable, text.error().text()));
      continue;
    }
    auto read = parse_entries(*text, {.name = page.string(), .rule = diag::rule::hub_bad_listing}, diagnostics);
    std::move(read.begin(), read.end(), std::back_inserter(files));
  }
  tidy(files, diagnostics);
  if (diagnostics.error_count() != errors_before || no_files(files, recorded.wanted, diagnostics)) return std::nullopt;
  std::optional<weights::IndexTotals> totals;
  if (recorded.index.empty()) {
    report_missing_numbers(files, diagnostics);
  } else {
    const auto content = base::read_file(recorded.index, weights::kLargestIndex);
    const ListedFile* listed = find_file(files, weights::kIndexName);
    if (!content) {
      diagnostics.add(diag::make(diag::rule::file_unreadable, content.error().text()));
    } else if (listed == nullptr) {
      diagnostics.add(diag::make(
          diag::rule::hub_bad_listing,
          fmt::format("the listing has no \"{}\" that \"{}\" could be", weights::kIndexName, recorded.index.string())));
    } else if (is_listed_content(*content, *listed, fmt::format("\"{}\"", recorded.index.string()), diagnostics)) {
      std::vector<std::string> missing;
      totals = read_index(*content, files, missing, diagnostics);
      if (!missing.empty()) report_unlisted(missing, diagnostics);
    }
  }
  if (diagnostics.error_count() != errors_before) return std::nullopt;
  return pin_of(recorded.wanted, files, totals);
}

}  // namespace sweep::hub
